"""Latency, throughput and step time, against numbers worked out by hand."""

from typing import Any

import pandas as pd
import pytest

from dflash_bench.analysis import metrics
from dflash_bench.analysis.frames import Sample, read_tables
from tests.unit.analysis.recording import CELL, Record, answer, failure, recording, steps, visit


def sample(*answers: Record, **changes: Any) -> Sample:
    return read_tables(visit("dflash-b4", 1, answers, **changes)).samples()[CELL, "dflash-b4"]


def test_percentiles_are_linear_between_order_statistics() -> None:
    found = metrics.percentiles(pd.Series([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert found == pytest.approx({"p50": 3.0, "p90": 4.6, "p99": 4.96})


def test_what_was_not_measured_is_null() -> None:
    assert metrics.percentiles(pd.Series([float("nan")])) == {"p50": None, "p90": None, "p99": None}
    assert metrics.total(pd.Series([float("nan")])) is None
    assert metrics.largest(pd.Series([float("nan")])) is None
    assert metrics.ratio(1.0, 0.0) is None


def test_time_per_output_token_leaves_the_first_token_out() -> None:
    # 0.5 s to the first token, then 2 s for the 4 others.
    found = metrics.latencies(sample(answer("p0", steps(1, 1))))
    assert found["ttft_s"]["p50"] == 0.5
    assert found["e2e_s"]["p50"] == 2.5
    assert found["tpot_s"]["p50"] == 0.5


def test_a_single_token_has_no_time_per_output_token() -> None:
    found = metrics.latencies(sample(answer("p0", steps(), e2e_s=0.5, ttft_s=0.5)))
    assert found["tpot_s"]["p50"] is None
    assert found["e2e_s"]["p50"] == 0.5


def test_throughput_is_tokens_over_wall_of_the_window() -> None:
    # 5 + 2 tokens; 0.5 + 2 and 0.5 + 1 seconds.
    found = sample(answer("p0", steps(1, 1)), answer("p1", steps(0)))
    assert metrics.output_throughput(found) == pytest.approx(7 / 4)


def test_a_failed_request_takes_time_and_gives_no_tokens() -> None:
    found = sample(answer("p0", steps(1, 1)), failure("p1"), window_wall_s=10.0)
    assert metrics.output_throughput(found) == pytest.approx(5 / 10)


def test_cpu_seconds_stand_beside_wall() -> None:
    found = metrics.window(sample(answer("p0", steps(1, 1))))
    assert (found["tokens"], found["row_steps"]) == (5, 2)
    assert found["wall_s_per_token"] == pytest.approx(0.5)
    assert found["cpu_s_per_token"] == pytest.approx(0.25)


def test_step_time_splits_the_window_per_row_step_and_per_token() -> None:
    found = metrics.step_time(sample(answer("p0", steps(1, 1), draft_prefill_s=0.25)))
    expected = {"draft": 0.25, "verify": 0.5, "commit": 0.125, "other": 0.125}
    told = {phase: seconds for phase, seconds in found["per_row_step_s"].items() if seconds}
    assert told == pytest.approx(expected | {"prefill": 0.25, "draft_prefill": 0.125})
    assert found["per_row_step_s"]["decode"] is None
    per_token = [seconds for seconds in found["per_token_s"].values() if seconds is not None]
    assert sum(per_token) == pytest.approx(2.75 / 5)


def test_occupancy_is_weighted_by_the_windows_time() -> None:
    one = [answer("p0", steps(1))]
    lines = recording(
        visit("ar", 1, one, window_wall_s=3.0, occupancy=1.0),
        visit("ar", 2, one, window_wall_s=1.0, occupancy=0.6),
        visit("ar", 3, one, window_wall_s=None, occupancy=None),
    )
    assert metrics.occupancy(read_tables(lines).visits) == pytest.approx(0.9)
