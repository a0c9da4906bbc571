"""Acceptance by position: how likely the first i drafts all hold, and draft i given those before it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dflash_bench.report.figures.figure import (
    MAX_PANELS,
    MAX_SERIES,
    Figure,
    left_out,
    series_key,
    shown,
)
from dflash_bench.report.figures.palette import look
from dflash_bench.report.figures.panel import Panel, draw
from dflash_bench.report.group import Group
from dflash_bench.report.model import Report
from dflash_bench.report.row import Row
from dflash_bench.report.words import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = (
    "Left: the share of steps in which the first i drafted tokens were all accepted; its sum, plus one, is tau."
    " Right: the share in which draft i was accepted, given that those before it were; where it falls, a longer"
    " block is wasted. In a tree i counts the drafts on a path. At the smallest batch size measured; steps cut at the"
    " end of a text are left out."
)


def acceptance_figure(report: Report) -> Figure:
    """Draw two panels per group: marginal and conditional."""
    notes: list[str] = []
    groups = [group for group in report.groups if _rows(group)]
    # Two panels each.
    groups = list(shown(groups, MAX_PANELS // 2, "groups of cells", notes))
    drafting = [arm for arm in report.arms if report.plan.arms[arm].method != "ar"]
    arms = shown(drafting, MAX_SERIES, "arms", notes)
    panels = [
        panel
        for group in groups
        for panel in (
            _panel(report, group, arms, "all of the first i accepted"),
            _panel(report, group, arms, "draft i accepted, given the ones before"),
        )
    ]
    return Figure(
        id="acceptance",
        title="Acceptance by position",
        caption=CAPTION,
        legend=tuple(series_key(index, report.arm_label(arm)) for index, arm in enumerate(arms)),
        panels=tuple(panels),
        left_out=left_out(notes),
        empty="No arm drafted anything, so there is no acceptance to show.",
    )


def _rows(group: Group) -> list[Row]:
    """Return the rows with acceptance by position, of the smallest batch size that has them."""
    rows = [row for row in group.compared if row.marginal]
    smallest = min((row.cell.batch_size for row in rows), default=0)
    return [row for row in rows if row.cell.batch_size == smallest]


def _panel(report: Report, group: Group, arms: Sequence[str], what: str) -> Panel:
    marginal = what.startswith("all")
    rates = {row.arm: row.marginal if marginal else row.conditional for row in _rows(group)}

    def paint(axes: "Axes") -> None:
        axes.grid(axis="y")
        # The first arm last, on top: blocks of one drafter often share a curve, and the shorter one shows where.
        for index, arm in reversed(list(enumerate(arms))):
            points = list(enumerate(rates.get(arm, ()), start=1))
            known = [(position, rate) for position, rate in points if rate is not None]
            axes.plot(
                [position for position, _ in known],
                [rate for _, rate in known],
                look(index).marker + "-",
                color=look(index).colour,
                markersize=4.5,
                linewidth=1.3,
            )
        axes.set_ylim(0, 1.03)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
        longest = max((len(values) for values in rates.values()), default=1)
        stride = max(1, -(-longest // 8))
        axes.set_xticks(range(1, longest + 1, stride))
        axes.set_xlim(0.5, longest + 0.5)
        axes.tick_params(length=0)
        axes.set_xlabel("position i in the draft")

    return draw(f"{group.label}: {what}", paint, _summary(report, group, what, rates))


def _summary(
    report: Report, group: Group, what: str, rates: dict[str, tuple[float | None, ...]]
) -> str:
    """Say the panel in words: each arm's first and last position."""
    parts = [
        f"{report.arm_label(arm)}: {percent(values[0])} at position 1, {percent(values[-1])} at {len(values)}"
        for arm, values in rates.items()
        if values
    ]
    return f"Share of steps with {what}, {group.label}. {'; '.join(parts)}."
