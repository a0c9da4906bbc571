"""The three ratios of an arm to its baseline, and how they hang together."""

from math import log

import pytest

from dflash_bench.analysis.comparison import Comparison
from dflash_bench.analysis.frames import read_tables
from tests.unit.analysis.recording import CELL, Record, answer, recording, steps, visit


def compared(ar: Record, dflash: Record) -> Comparison:
    samples = read_tables(
        recording(visit("ar", 1, [ar]), visit("dflash-b4", 1, [dflash]))
    ).samples()
    return Comparison.of(samples[CELL, "ar"], samples[CELL, "dflash-b4"], "workload")


def test_speedup_break_even_and_tau_of_one_pair() -> None:
    # AR: 6 steps of 1 s after 0.5 s of prefill, 7 tokens. DFlash: 2 steps of 1.5 s, the same prefill, 7 tokens.
    found = compared(
        answer("p0", steps(*[0] * 6, drafted=0)), answer("p0", steps(3, 1), step_s=1.5)
    )
    assert found.speedup is not None
    assert found.decode_speedup is not None
    assert found.speedup.ratio == pytest.approx(6.5 / 3.5)
    assert found.decode_speedup.ratio == pytest.approx(6 / 3)
    assert found.break_even_tau == pytest.approx(1.5)
    assert found.tau == pytest.approx(3.0)


def test_log_decode_speedup_is_log_tau_minus_log_break_even() -> None:
    found = compared(
        answer("p0", steps(*[0] * 6, drafted=0), step_s=0.7),
        answer("p0", steps(2, 0, 1), step_s=0.9, draft_prefill_s=0.2),
    )
    assert found.decode_speedup is not None
    assert found.tau is not None
    assert found.break_even_tau is not None
    expected = log(found.tau) - log(found.break_even_tau)
    assert found.decode_speedup.value == pytest.approx(expected)


def test_outputs_of_different_length_are_compared_per_token() -> None:
    # At temperature > 0 the arm may stop earlier: 3 tokens in 2.5 s against 7 tokens in 6.5 s.
    found = compared(
        answer("p0", steps(*[0] * 6, drafted=0)), answer("p0", steps(0, 0), ids=[1, 2, 3])
    )
    assert found.speedup is not None
    assert found.speedup.ratio == pytest.approx((6.5 / 7) / (2.5 / 3))


def test_nothing_paired_gives_nothing() -> None:
    found = compared(answer("p0", steps(0, drafted=0)), answer("p1", steps(0)))
    assert found.speedup is None
    assert found.tau is None
    assert found.break_even_tau is None
