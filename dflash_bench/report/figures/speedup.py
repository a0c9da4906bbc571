"""Speedup over arm and batch size: the estimate, its interval, and every round's own ratio as a dot."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dflash_bench.report.figures.figure import (
    MAX_BARS,
    MAX_PANELS,
    MAX_SERIES,
    Figure,
    left_out,
    series_key,
    shown,
)
from dflash_bench.report.figures.palette import BAND, INK, MUTED, PAPER, look
from dflash_bench.report.figures.panel import Panel, draw
from dflash_bench.report.figures.scale import limits, ratio_axis
from dflash_bench.report.group import Group
from dflash_bench.report.model import Report
from dflash_bench.report.row import Row
from dflash_bench.report.words import interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = (
    "Time per output token of {baseline}, prefill included, over that of the arm: above 1 the arm is faster, below 1"
    " it is slower. Bars are 95 % intervals, small dots the single rounds; inside the shaded band (±{delta:.0%}) a"
    " difference is not worth having."
)


def speedup_figure(report: Report) -> Figure:
    """Draw one panel per group; the same scale in all."""
    notes: list[str] = []
    groups = [group for group in report.groups if any(row.speedup for row in group.compared)]
    groups = list(shown(groups, MAX_PANELS, "groups of cells", notes))
    arms = shown(report.arms, MAX_BARS, "arms", notes)
    sizes = sorted({row.cell.batch_size for group in groups for row in group.compared})
    batches = shown(sizes, MAX_SERIES, "batch sizes", notes)
    span = limits([value for group in groups for row in group.compared for value in _values(row)])
    return Figure(
        id="speedup",
        title="Speedup",
        caption=CAPTION.format(baseline=report.plan.baseline, delta=report.spec.design.delta),
        legend=tuple(series_key(index, f"batch {size}") for index, size in enumerate(batches)),
        panels=tuple(_panel(report, group, arms, batches, span) for group in groups),
        left_out=left_out(notes),
        empty="No arm was measured against the baseline, so there is no speedup to show.",
    )


def _values(row: Row) -> list[float]:
    """Return every ratio that `row` puts on the axis."""
    if row.speedup is None:
        return []
    bounds = [row.speedup.low, row.speedup.high]
    return [row.speedup.value, *row.pairs, *(bound for bound in bounds if bound is not None)]


def _panel(
    report: Report,
    group: Group,
    arms: Sequence[str],
    batches: Sequence[int],
    span: tuple[float, float],
) -> Panel:
    blocks = all(report.arm_label(arm).startswith("block ") for arm in arms)

    def paint(axes: "Axes") -> None:
        ratio_axis(axes, *span)
        delta = report.spec.design.delta
        axes.axhspan(1 / (1 + delta), 1 + delta, color=BAND, linewidth=0)
        axes.axhline(1, color=MUTED, linewidth=1)
        for index, batch in enumerate(batches):
            offset = 0.18 * (index - (len(batches) - 1) / 2) if len(batches) <= 4 else 0.0
            rows = [row for row in group.compared if row.cell.batch_size == batch]
            _draw_series(axes, index, offset, {row.arm: row for row in rows}, arms, joined=blocks)
        labels = [report.arm_label(arm).removeprefix("block ") for arm in arms]
        long = any(len(label) > 6 for label in labels)
        if long:  # slanted, each ending below its own tick
            axes.set_xticks(
                range(len(arms)), labels, rotation=30, ha="right", rotation_mode="anchor"
            )
        else:
            axes.set_xticks(range(len(arms)), labels)
        axes.set_xlim(-0.5, len(arms) - 0.5)
        axes.set_xlabel("block size" if blocks else "arm")
        axes.set_ylabel(f"speedup over {report.plan.baseline}")

    return draw(group.label, paint, _summary(report, group))


def _draw_series(
    axes: "Axes",
    index: int,
    offset: float,
    rows: dict[str, Row],
    arms: Sequence[str],
    joined: bool,
) -> None:
    """Draw one batch size: its rounds to the right of its estimates, which a thin line joins if arms are one scale."""
    series = look(index)
    found = [(x + offset, rows[arm]) for x, arm in enumerate(arms) if arm in rows]
    known = [(x, row.speedup, row.pairs) for x, row in found if row.speedup is not None]
    if joined:
        axes.plot(
            [x for x, _, _ in known],
            [estimate.value for _, estimate, _ in known],
            color=series.colour,
            linewidth=0.8,
            alpha=0.5,
        )
    for x, estimate, pairs in known:
        if estimate.low is not None and estimate.high is not None:
            axes.vlines(x, estimate.low, estimate.high, color=series.colour, linewidth=2.2)
        beside = [x + 0.07 + 0.06 * place / len(pairs) for place in range(len(pairs))]
        axes.plot(beside, pairs, ".", color=INK, markersize=3.5, alpha=0.55, markeredgewidth=0)
        axes.plot(
            x,
            estimate.value,
            series.marker,
            color=series.colour,
            markersize=5.5,
            markeredgecolor=PAPER,
            markeredgewidth=0.8,
        )


def _summary(report: Report, group: Group) -> str:
    """Say the panel in words: per batch size, the speedup of each arm."""
    parts = []
    for batch in group.batch_sizes:
        rows = [row for row in group.compared if row.cell.batch_size == batch and row.speedup]
        found = [f"{interval(row.speedup, 'x')} with {report.arm_label(row.arm)}" for row in rows]
        if found:
            parts.append(f"batch {batch}: {', '.join(found)}")
    return f"Speedup on {group.label}. {'; '.join(parts)}."
