"""The time left comes from the nearest that was seen: the same arm in the same cell, the arm, anything."""

import pytest

from dflash_bench.plan import Visit
from dflash_bench.run.estimate import TimeLeft


def visit(cell: str, arm: str, number: int) -> Visit:
    return Visit(id=f"{cell}/r{number}/{arm}", cell=cell, arm=arm, round=number, role="measure")


def test_nothing_is_claimed_before_anything_was_seen() -> None:
    assert TimeLeft({}).of([visit("c", "ar", 1)]) is None


def test_the_same_arm_in_the_same_cell_tells_most() -> None:
    visits = [visit("c", "ar", 1), visit("d", "ar", 1), visit("c", "ar", 2), visit("d", "x", 1)]
    left = TimeLeft({v.id: 10 for v in visits})
    left.saw(visits[0], 20.0)
    left.saw(visits[1], 40.0)
    assert left.of([visits[2]]) == pytest.approx(20.0)
    assert left.of([visits[3]]) == pytest.approx(30.0), "an unknown arm takes the mean of all"
