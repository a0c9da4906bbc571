"""Each doubt is raised by its own cause, and a clean visit raises none."""

from typing import Any

from dflash_bench.analysis.frames import Sample, read_tables
from dflash_bench.analysis.lints import lints
from dflash_bench.records.schema import Client
from tests.unit.analysis.recording import CELL, Record, answer, steps, visit


def sample(*answers: Record, **changes: Any) -> Sample:
    return read_tables(visit("dflash-b4", 1, answers, **changes)).samples()[CELL, "dflash-b4"]


def client(lag_s: float, cpu_share: float) -> dict[str, Any]:
    told = Client(lag_p50_s=0.0, lag_p99_s=lag_s, lag_max_s=lag_s, cpu_share=cpu_share)
    return {"client": told}


ONE = answer("p0", steps(1, 1))  # takes 2.5 s
CLEAN = sample(ONE, **client(0.001, 0.1))


def codes(found: Sample, baseline: Sample = CLEAN) -> list[str]:
    return [lint["code"] for lint in lints(found, baseline)]


def test_a_clean_visit_raises_no_doubt() -> None:
    assert codes(CLEAN) == []
    assert codes(sample(ONE)) == []


def test_a_late_client_is_told_with_what_it_is_late_against() -> None:
    (lint,) = lints(sample(ONE, **client(0.75, 0.1)), CLEAN)
    assert lint["code"] == "DFB201"
    assert "750.0 ms late" in lint["message"]
    assert "2500.0 ms" in lint["message"]


def test_a_hiccup_in_one_visit_of_three_is_no_bound_client() -> None:
    lines = [
        line
        for number, lag in ((1, 0.75), (2, 0.001), (3, 0.001))
        for line in visit("dflash-b4", number, [ONE], **client(lag, 0.1))
    ]
    assert codes(read_tables(lines).samples()[CELL, "dflash-b4"]) == []


def test_a_busy_client_is_told() -> None:
    assert codes(sample(ONE, **client(0.0, 0.95))) == ["DFB201"]


def test_each_complaint_about_counters_is_told_once() -> None:
    backend = {"complaints": ["The counters were reset.", "The counters were reset."]}
    (lint,) = lints(sample(ONE, backend=backend), CLEAN)
    assert (lint["code"], lint["message"]) == ("DFB202", "The counters were reset.")


def test_prompts_out_of_a_cache_are_no_measurement() -> None:
    (lint,) = lints(sample(ONE | {"cached_tokens": 4}, answer("p1", steps(0))), CLEAN)
    assert (lint["code"], lint["severity"]) == ("DFB203", "invalid")
    assert "4 prompt tokens of 1 requests" in lint["message"]


def test_other_settings_than_the_baselines_are_noted_where_both_tell_them() -> None:
    arm = sample(ONE, backend={"max_requests": 48, "graph_mode": "none"})
    baseline = sample(ONE, backend={"max_requests": 256})
    (lint,) = lints(arm, baseline)
    assert lint["code"] == "DFB204"
    assert lint["message"] == "max_requests is 48, and 256 in the baseline."


def test_what_a_build_is_known_to_do_wrong_is_said_with_the_figures() -> None:
    (lint,) = lints(sample(ONE, backend={"defects": ["it norms by the first layer"]}), CLEAN)
    assert (lint["code"], lint["severity"]) == ("DFB205", "warning")
    assert lint["message"] == "It norms by the first layer."
    (lint,) = lints(sample(ONE, backend={"defects": ["vLLM takes ids otherwise"]}), CLEAN)
    assert lint["message"] == "vLLM takes ids otherwise."


def test_a_server_that_is_not_its_arm_is_no_measurement() -> None:
    (lint,) = lints(sample(ONE, backend={"invalid": ["arm ar is plain, and it speculates"]}), CLEAN)
    assert (lint["code"], lint["severity"]) == ("DFB206", "invalid")


def test_tau_of_some_requests_says_so() -> None:
    silent = answer("p1", steps(0)) | {"steps": None}
    (lint,) = lints(sample(ONE, silent), CLEAN)
    assert lint["code"] == "DFB207"
    assert lint["message"].startswith("Tau is of 1 of 2 requests")


def test_a_cache_that_only_counters_tell_of_is_seen() -> None:
    (lint,) = lints(sample(ONE, backend={"cached_prompt_tokens": 7}), CLEAN)
    assert (lint["code"], lint["message"][:15]) == ("DFB203", "7 prompt tokens")
