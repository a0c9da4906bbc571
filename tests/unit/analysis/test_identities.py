"""A broken record is named, and an honest one is not."""

from collections.abc import Iterator

import pytest

from dflash_bench.analysis.acceptance import ByPosition
from dflash_bench.analysis.frames import read_tables
from dflash_bench.analysis.identities import (
    broken_decomposition,
    broken_positions,
    broken_records,
)
from tests.unit.analysis.recording import CELL, Record, answer, failure, steps, visit


def lines() -> list[Record]:
    first = steps(1, 2, depth=(2, 2), scheduled=(4, 6), busy=(2, 1))
    return visit("ar", 1, [answer("p0", first), answer("p1", steps(3, 0, cut_last=1))])


def broken(records: list[Record]) -> Iterator[str]:
    return broken_records(read_tables(records).samples()[CELL, "ar"])


def test_an_honest_record_breaks_nothing() -> None:
    assert list(broken(lines())) == []


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("steps", "accepted"), [1, 1], "accepted = committed - 1 fails in 1 of 4 steps"),
        (("steps", "drafted"), [0, 3], "accepted <= drafted fails in 1 of 4 steps"),
        (("steps", "cut"), [3, 0], "committed + cut <= 1 + drafted fails in 1 of 4 steps"),
        (("steps", "scheduled"), [3, 4], "scheduled >= 1 + drafted fails in 1 of 2 steps"),
        (("steps", "depth"), [1, 1], "accepted <= depth of the draft fails in 1 of 4 steps"),
        (("output_tokens",), 7, "sum of committed = output tokens - 1 fails in 1 of 2 requests"),
        (("output_ids",), [7], "output tokens = number of output ids fails in 1 of 2 requests"),
        (("window", "other_s"), 9.0, "shares sum to 13.75 s, its window is 5 s"),
    ],
)
def test_what_is_broken_is_named(path: tuple[str, ...], value: object, sentence: str) -> None:
    records = lines()
    place = records[1]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert sentence in " | ".join(broken(records))


def test_a_lost_request_is_missed() -> None:
    records = lines()
    del records[2]
    assert list(broken(records)) == [
        "visit sample-math.b1.t0/r1/ar/measure ended 2 requests and recorded 1"
    ]


def test_a_failed_request_excuses_the_shares_of_its_visit() -> None:
    assert (
        list(broken(visit("ar", 1, [answer("p0", steps(1)), failure("p1")], window_wall_s=9))) == []
    )


def test_a_backend_that_tells_no_steps_and_no_window_breaks_nothing() -> None:
    silent = answer("p0", steps(1), steps=None, window=None)
    assert list(broken(visit("ar", 1, [silent], window_wall_s=None))) == []
    assert list(broken(visit("ar", 1, [silent], window_wall_s=3.0))) == []


def test_positions_must_sum_to_tau_and_not_increase() -> None:
    assert list(broken_positions(ByPosition([0.5, 0.25], [0.5, 0.5], [2, 1, 1], 1.75))) == []
    found = list(broken_positions(ByPosition([0.25, 0.5], [0.25, 2.0], [3, 0, 1], 1.5)))
    assert found == [
        "tau = 1 + sum(marginal) fails over steps not cut: 1.5, 1.75",
        "marginals increase with the position",
    ]


def test_the_decomposition_must_close() -> None:
    assert list(broken_decomposition(2.0, 3.0, 1.5)) == []
    assert list(broken_decomposition(None, 3.0, 1.5)) == []
    assert len(list(broken_decomposition(2.0, 3.0, 1.4))) == 1
