"""Drift: the baseline late over the baseline early."""

import pytest

from dflash_bench.analysis.drift import cell_drift, control_drift
from dflash_bench.analysis.frames import read_tables
from tests.unit.analysis.recording import CELL, answer, recording, steps, visit

SLOW = [answer("p0", steps(0, 0, drafted=0), step_s=1.25, prefill_s=0.5)]  # 3 tokens in 3 s
FAST = [answer("p0", steps(0, 0, drafted=0), step_s=0.5, prefill_s=0.5)]  # 3 tokens in 1.5 s


def test_controls_tell_the_drift_of_the_run_in_wall_and_cpu() -> None:
    lines = recording(
        visit("ar", 0, FAST, role="control_first", window_cpu_s=1.5),
        visit("ar", 0, SLOW, role="control_last", window_cpu_s=1.8),
    )
    found = control_drift(read_tables(lines))
    assert found["wall_ratio"] == pytest.approx(2.0)
    assert found["cpu_ratio"] == pytest.approx(1.2)
    assert found["first_wall_s_per_token"] == pytest.approx(0.5)


def test_a_missing_control_leaves_the_ratio_unknown() -> None:
    found = control_drift(read_tables(visit("ar", 0, FAST, role="control_first")))
    assert found["first_wall_s_per_token"] == pytest.approx(0.5)
    assert found["wall_ratio"] is None


def test_within_a_cell_the_last_round_is_set_over_the_first() -> None:
    lines = recording(visit("ar", 1, SLOW), visit("ar", 2, SLOW), visit("ar", 3, FAST))
    found = cell_drift(read_tables(lines).samples()[CELL, "ar"])
    assert found["wall_ratio"] == pytest.approx(0.5)


def test_one_round_cannot_drift() -> None:
    found = cell_drift(read_tables(visit("ar", 1, SLOW)).samples()[CELL, "ar"])
    assert set(found.values()) == {None}
    assert set(cell_drift(None).values()) == {None}
