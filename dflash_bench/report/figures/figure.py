"""A figure of the page: a title, how to read it, a legend and small panels, as many as stay readable."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from dflash_bench.report.figures.palette import look
from dflash_bench.report.figures.panel import Panel
from dflash_bench.report.row import Row

# More than this and neither the eye nor the file size bears it; the table of all cells has the rest.
MAX_PANELS = 6
MAX_SERIES = 8
MAX_BARS = 18

Item = TypeVar("Item")


@dataclass(frozen=True)
class Key:
    """A legend's entry: a character of the series' shape in the colour of a CSS variable, and what it stands for."""

    glyph: str
    variable: str
    label: str


@dataclass(frozen=True)
class Figure:
    """What the page shows under one heading; without panels, `empty` says why."""

    id: str
    title: str
    caption: str
    legend: tuple[Key, ...]
    panels: tuple[Panel, ...]
    left_out: str
    empty: str


def series_key(index: int, label: str) -> Key:
    """Return the legend's entry of line series `index`."""
    return Key(look(index).glyph, look(index).variable, label)


def shown(items: Sequence[Item], limit: int, noun: str, notes: list[str]) -> Sequence[Item]:
    """Return the first `limit` of `items`; if some are left out, say so in `notes`."""
    if len(items) > limit:
        notes.append(f"the first {limit} of {len(items)} {noun}")
    return items[:limit]


def heights(rows: Sequence[Row]) -> list[float]:
    """Return where on the y axis each of `rows` lies: one below the other, with a gap between batch sizes."""
    found: list[float] = []
    for row, before in zip(rows, [None, *rows], strict=False):
        gap = 1.4 if before is not None and before.cell.batch_size != row.cell.batch_size else 1.0
        found.append(found[-1] + gap if found else 0.0)
    return found


def left_out(notes: Sequence[str]) -> str:
    """Return the sentence that says what a figure does not show; empty if it shows all."""
    parts = " and ".join(dict.fromkeys(notes))
    return f"Shown: {parts}; the table below has all of them." if parts else ""
