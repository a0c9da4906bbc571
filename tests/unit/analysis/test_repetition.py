"""A text that loops is told apart, and so are the measures without it."""

from array import array

import pytest

from dflash_bench.analysis.comparison import Comparison
from dflash_bench.analysis.frames import read_tables
from dflash_bench.analysis.repetition import repeats, repetition
from tests.unit.analysis.recording import CELL, answer, recording, steps, visit


def text(*ids: int) -> bytes:
    return array("i", ids).tobytes()


def test_a_run_that_occurs_twice_is_a_repetition() -> None:
    run = tuple(range(20))
    assert repeats(text(*run, 99, *run))
    assert repeats(text(*(1, 2, 3) * 10))


def test_a_shorter_run_is_none() -> None:
    run = tuple(range(19))
    assert not repeats(text(*run, 99, *run, 98))
    assert not repeats(text(*range(500)))
    assert not repeats(text())


def test_tau_and_speedup_are_told_over_the_others_too() -> None:
    plain, loop = steps(*[0] * 29, drafted=0), steps(*[0] * 29, drafted=0)
    loop_ids, plain_ids = [5] * 30, list(range(30))
    drafted_plain, drafted_loop = steps(*[1] * 14, 0), steps(*[3] * 7, 0)
    tables = read_tables(
        recording(
            visit("ar", 1, [answer("a", plain, ids=plain_ids), answer("b", loop, ids=loop_ids)]),
            visit(
                "dflash-b4",
                1,
                [
                    answer("a", drafted_plain, ids=plain_ids),
                    answer("b", drafted_loop, ids=loop_ids),
                ],
            ),
        )
    )
    samples = tables.samples()
    baseline, arm = samples[CELL, "ar"], samples[CELL, "dflash-b4"]
    found = repetition(arm, Comparison.of(baseline, arm, "workload"))
    assert (found["prompts"], found["repeating"]) == (2, 1)
    assert found["acceptance_length_others"] == pytest.approx(29 / 15)
    # Half a second of prefill on both sides, one second a step.
    assert found["speedup_others"] == pytest.approx(29.5 / 15.5)


def test_where_all_texts_loop_nothing_is_said_of_the_others() -> None:
    looping = answer("a", steps(*[0] * 29, drafted=0), ids=[5] * 30)
    sample = read_tables(recording(visit("ar", 1, [looping]))).samples()[CELL, "ar"]
    assert repetition(sample, None) == {
        "prompts": 1,
        "repeating": 1,
        "acceptance_length_others": None,
        "speedup_others": None,
    }
