"""The drift is told in both directions, and only if both controls ran."""

from typing import Any

from dflash_bench.report.drift import read_drift

KNOWN: dict[str, Any] = {
    "first_wall_s_per_token": 0.002,
    "last_wall_s_per_token": 0.0021,
    "wall_ratio": 1.05,
    "cpu_ratio": 0.98,
}


def test_slower_and_faster_are_told_apart() -> None:
    drift = read_drift(KNOWN)
    assert drift is not None
    assert "2.00 ms at the start and 2.10 ms at the end" in drift.sentence
    assert "5.0 % more wall time" in drift.sentence
    assert "process CPU time: 2.0 % less" in drift.sentence


def test_unknown_cpu_time_is_said() -> None:
    drift = read_drift(KNOWN | {"cpu_ratio": None})
    assert drift is not None
    assert "process CPU time: not known" in drift.sentence


def test_no_change_is_not_called_more() -> None:
    drift = read_drift(KNOWN | {"wall_ratio": 1.0002})
    assert drift is not None
    assert "no more and no less wall time" in drift.sentence


def test_a_missing_control_leaves_no_drift() -> None:
    assert read_drift(KNOWN | {"last_wall_s_per_token": None, "wall_ratio": None}) is None
    assert read_drift(None) is None
