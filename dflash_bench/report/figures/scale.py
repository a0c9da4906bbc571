"""A logarithmic axis for ratios with plain numbers at its ticks: 0.5 lies as far below 1 as 2 lies above."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dflash_bench.report.words import digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEPS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
MARGIN = 1.12


def limits(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis that holds `ratios` and 1, with some room on both sides."""
    known = [value for value in ratios if value > 0]
    return min([*known, 0.9]) / MARGIN, max([*known, 1.25]) * MARGIN


def ticks(low: float, high: float, most: int = 8) -> list[float]:
    """Return round ratios from `low` to `high`, at most `most` of them unless powers of two alone are more."""
    up = [step * 8.0**octave for octave in range(5) for step in STEPS[:-1]]
    found = sorted({value for step in up for value in (step, 1 / step) if low <= value <= high})
    if len(found) > most:
        return [2.0**power for power in range(-12, 13) if low <= 2.0**power <= high]
    if len(found) > 3:
        return found
    # A narrow axis, of arms that make little difference: tenths, or fifths.
    tenths = [number for number in range(1, 41) if low <= number / 10 <= high]
    step = 1 if len(tenths) <= most else 2
    return [number / 10 for number in tenths if number % step == 0]


def ratio_axis(axes: "Axes", low: float, high: float) -> None:
    """Make the y axis of `axes` a ratio from `low` to `high`."""
    from matplotlib.ticker import NullLocator

    axes.set_yscale("log")
    axes.set_ylim(low, high)
    values = ticks(low, high)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_yticks(values, [f"{digits(value, 2).removesuffix('.0')}x" for value in values])
    axes.tick_params(length=0)
    axes.grid(axis="y")
