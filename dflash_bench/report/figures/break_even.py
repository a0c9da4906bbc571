"""Tau beside break-even tau: what a step yields against what it must yield to pay for itself."""

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
from dflash_bench.report.figures.palette import GAIN, INK, LOSS, PAPER
from dflash_bench.report.figures.panel import Panel, draw
from dflash_bench.report.group import Group
from dflash_bench.report.model import Report
from dflash_bench.report.row import Row
from dflash_bench.report.words import digits, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = (
    "Tau is the number of tokens that a step commits; break-even tau is the number that it must commit for decoding"
    " to be as fast as {baseline}, since that many steps of {baseline} fit into its time. Their ratio is the decode"
    " speedup. Lines around tau are its 95 % interval."
)
LEGEND = (
    Key("●", "gain", "tau, above break-even: a step yields more than it costs"),
    Key("■", "loss", "tau, below break-even: it costs more than it yields"),
    Key("◇", "ink", "break-even tau"),
)


def break_even_figure(report: Report) -> Figure:
    """Draw one panel per group, one line per arm and batch size."""
    notes: list[str] = []
    groups = [group for group in report.groups if _rows(group)]
    groups = list(shown(groups, MAX_PANELS, "groups of cells", notes))
    return Figure(
        id="break-even",
        title="Tau beside break-even",
        caption=CAPTION.format(baseline=report.plan.baseline),
        legend=LEGEND,
        panels=tuple(
            _panel(report, group, list(shown(_rows(group), MAX_BARS, "lines", notes)))
            for group in groups
        ),
        left_out=left_out(notes),
        empty="No step was timed against the baseline's, so break-even is not known.",
    )


def _rows(group: Group) -> list[Row]:
    rows = [row for row in group.compared if row.wins_per_step is not None]
    return sorted(rows, key=lambda row: row.cell.batch_size)


def _panel(report: Report, group: Group, rows: list[Row]) -> Panel:
    levels = heights(rows)

    def paint(axes: "Axes") -> None:
        for y, row in zip(levels, rows, strict=True):
            _draw_line(axes, y, row)
        labels = [f"{report.arm_label(row.arm)}, batch {row.cell.batch_size}" for row in rows]
        axes.set_yticks(levels, labels)
        axes.set_ylim(levels[-1] + 0.6, -0.6)
        axes.set_xlim(left=0)
        axes.tick_params(length=0)
        axes.grid(axis="x")
        axes.set_xlabel("tokens per step")

    return draw(group.label, paint, _summary(report, group, rows), height=0.9 + 0.27 * levels[-1])


def _draw_line(axes: "Axes", y: float, row: Row) -> None:
    """Draw one arm: a line from break-even to tau, whole where it gains and dashed where it loses."""
    if row.tau is None or row.break_even_tau is None:
        return
    colour, marker, line = (GAIN, "o", "-") if row.wins_per_step else (LOSS, "s", "--")
    axes.hlines(y, row.break_even_tau, row.tau.value, color=colour, linewidth=1.4, linestyle=line)
    if row.tau.low is not None and row.tau.high is not None:
        axes.hlines(y, row.tau.low, row.tau.high, color=colour, linewidth=3.6, alpha=0.35)
    axes.plot(row.tau.value, y, marker, markersize=6, color=colour, markeredgecolor=PAPER, zorder=3)
    # An outline on top, so that both are seen where they coincide.
    axes.plot(
        row.break_even_tau,
        y,
        "D",
        markersize=6.5,
        markerfacecolor="none",
        markeredgecolor=INK,
        zorder=4,
    )


def _summary(report: Report, group: Group, rows: list[Row]) -> str:
    parts = [
        f"{report.arm_label(row.arm)} at batch {row.cell.batch_size}: tau {interval(row.tau)},"
        f" break-even {digits(row.break_even_tau)}"
        for row in rows
    ]
    return f"Tau and break-even tau on {group.label}. {'; '.join(parts)}."
