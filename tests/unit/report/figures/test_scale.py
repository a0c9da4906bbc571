"""A ratio's axis is symmetrical around 1 and labelled with round numbers."""

import pytest

from dflash_bench.report.figures.scale import limits, ticks


def test_the_axis_holds_every_ratio_and_one() -> None:
    low, high = limits([1.5, 4.0])
    assert low < 1 < 4 < high
    low, high = limits([0.3, 0.5])
    assert low < 0.3 < 1 < high


def test_without_ratios_the_axis_is_around_one() -> None:
    low, high = limits([])
    assert 0.5 < low < 1 < high < 2


@pytest.mark.parametrize(
    ("low", "high"), [(0.8, 1.4), (0.7, 1.9), (0.5, 4.5), (0.1, 20.0), (0.01, 300.0)]
)
def test_ticks_lie_inside_and_hold_one(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 1 in found
    assert found == sorted(found)
    assert low <= found[0]
    assert found[-1] <= high
    assert 3 <= len(found) <= 16
