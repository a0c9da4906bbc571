"""Where the time of a step goes: its phases stacked, beside a step of the baseline."""

from typing import TYPE_CHECKING

from dflash_bench.report.figures.figure import (
    MAX_BARS,
    MAX_PANELS,
    Figure,
    Key,
    heights,
    left_out,
    shown,
)
from dflash_bench.report.figures.palette import INK, LOOKS, PAPER, look
from dflash_bench.report.figures.panel import Panel, draw
from dflash_bench.report.group import Group
from dflash_bench.report.model import Report
from dflash_bench.report.row import PHASES, Row
from dflash_bench.report.words import milliseconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = (
    "Milliseconds of decode time per step and active row. A bar's length over that of {baseline} in the same cell is"
    " the break-even tau. Draft prefill, the drafter's reading of the prompt, is spread over the steps; the target's"
    " own prefill is not in it."
)
NAMES = {
    "draft": "draft",
    "verify": "verify (the target's pass)",
    "commit": "commit",
    "draft_prefill": "draft prefill",
    "other": "other",
    "decode": "not told apart",
}


def step_time_figure(report: Report) -> Figure:
    """Draw one panel per group, one bar per arm and batch size, the baseline's first."""
    notes: list[str] = []
    groups = [group for group in report.groups if _rows(group)]
    groups = list(shown(groups, MAX_PANELS, "groups of cells", notes))
    return Figure(
        id="step-time",
        title="Where the time of a step goes",
        caption=CAPTION.format(baseline=report.plan.baseline),
        legend=tuple(
            Key(series.swatch, series.variable, NAMES[phase])
            for series, phase in zip(LOOKS, PHASES, strict=False)
        ),
        panels=tuple(
            _panel(report, group, list(shown(_rows(group), MAX_BARS, "bars", notes)))
            for group in groups
        ),
        left_out=left_out(notes),
        empty="The runner shows no times within a step.",
    )


def _rows(group: Group) -> list[Row]:
    """Return the timed rows: by batch size, the baseline first."""
    rows = [row for row in group.rows if row.phases]
    return sorted(rows, key=lambda row: (row.cell.batch_size, row.arm != group.baseline))


def _panel(report: Report, group: Group, rows: list[Row]) -> Panel:
    levels = heights(rows)

    def paint(axes: "Axes") -> None:
        totals = [1e3 * sum((row.phases or {}).values()) for row in rows]
        starts = [0.0] * len(rows)
        for index, phase in enumerate(PHASES):
            widths = [1e3 * (row.phases or {}).get(phase, 0.0) for row in rows]
            axes.barh(
                levels,
                widths,
                left=starts,
                height=0.66,
                color=look(index).colour,
                hatch=look(index).hatch,
                edgecolor=PAPER,
                linewidth=0.5,
            )
            starts = [start + width for start, width in zip(starts, widths, strict=True)]
        for y, total in zip(levels, totals, strict=True):
            axes.text(
                total + 0.015 * max(totals), y, milliseconds(total / 1e3), va="center", color=INK
            )
        labels = [f"{report.arm_label(row.arm)}, batch {row.cell.batch_size}" for row in rows]
        axes.set_yticks(levels, labels)
        axes.set_ylim(levels[-1] + 0.6, -0.6)
        axes.set_xlim(0, 1.16 * max(totals))
        axes.tick_params(length=0)
        axes.grid(axis="x")
        axes.set_xlabel("ms per step and row")

    return draw(group.label, paint, _summary(report, group, rows), height=0.9 + 0.27 * levels[-1])


def _summary(report: Report, group: Group, rows: list[Row]) -> str:
    parts = []
    for row in rows:
        phases = row.phases or {}
        split = ", ".join(f"{NAMES[name]} {milliseconds(s)}" for name, s in phases.items() if s)
        parts.append(f"{report.arm_label(row.arm)} at batch {row.cell.batch_size}: {split}")
    return f"Milliseconds per step and row on {group.label}. {'; '.join(parts)}."
