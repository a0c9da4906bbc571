"""Drafting that a backend tells as a sum: of a request, or by its counters of a whole visit."""

from typing import Any

import pytest

from dflash_bench.analysis.cells import analyse
from dflash_bench.analysis.frames import read_tables
from dflash_bench.analysis.identities import broken_records
from dflash_bench.records.schema import Acceptance
from tests.unit.analysis.recording import (
    CELL,
    Record,
    answer,
    failure,
    plan,
    recording,
    spec,
    steps,
    visit,
)


def told(**fields: Any) -> dict[str, Any]:
    return Acceptance(source="test", **fields).model_dump(mode="json")


def summed(request: str, accepted: int, passes: int, overshoot: int = 0, **more: Any) -> Record:
    """Return a request of 1 + passes + accepted - overshoot tokens that tells its sums and no steps."""
    tokens = 1 + passes + accepted - overshoot
    base = answer(request, steps(*(0,) * (tokens - 1), drafted=0))
    share = base["window"].model_copy(
        update={"steps": passes, "accepted": tokens - 1 - passes, "drafted": 3 * passes}
    )
    acceptance = told(
        steps=passes, drafted=3 * passes, accepted=accepted, overshoot=overshoot, **more
    )
    return base | {"steps": None, "acceptance": acceptance, "window": share}


def entry_of(*visits: list[Record]) -> dict[str, Any]:
    found = analyse(plan(), spec(), recording(*visits)).cells
    return next(entry for entry in found if entry["arm"] == "dflash-b4")


def baseline(number: int) -> list[Record]:
    return visit(
        "ar", number, [answer("p0", steps(0, 0, drafted=0)), answer("p1", steps(0, drafted=0))]
    )


def test_tau_of_summed_requests_is_pooled_over_their_steps() -> None:
    requests = [summed("p0", accepted=6, passes=2), summed("p1", accepted=1, passes=3)]
    entry = entry_of(baseline(1), visit("dflash-b4", 1, requests))
    assert entry["acceptance_length"]["value"] == pytest.approx(12 / 5)
    assert entry["acceptance_length"]["per_request_mean"] == pytest.approx(
        (8 / 2 + 4 / 3) / 2, rel=1e-5
    )
    assert (entry["verify_steps"], entry["drafted_tokens"], entry["accepted_tokens"]) == (5, 15, 7)
    assert entry["acceptance_rate"] == pytest.approx(7 / 15)
    assert entry["identities_broken"] == []


def test_what_was_dropped_past_the_end_counts_nowhere() -> None:
    entry = entry_of(
        baseline(1), visit("dflash-b4", 1, [summed("p0", accepted=6, passes=2, overshoot=2)])
    )
    assert entry["acceptance_length"]["value"] == pytest.approx(6 / 2)
    assert entry["accepted_tokens"] == 4


def test_positions_come_from_the_requests_histograms() -> None:
    requests = [
        summed("p0", accepted=4, passes=2, histogram=(0, 1, 0, 1)),
        summed("p1", accepted=1, passes=2, histogram=(1, 1)),
    ]
    entry = entry_of(baseline(1), visit("dflash-b4", 1, requests))
    assert entry["acceptance_rate_marginal"] == pytest.approx([3 / 4, 1 / 4, 1 / 4])
    assert entry["accepted_histogram"] == [1, 2, 0, 1]


def test_counters_of_whole_visits_give_tau_without_an_interval() -> None:
    silent = answer("p0", steps(0, 0, 0, 0, drafted=0))
    share = silent["window"].model_copy(update={"steps": None, "accepted": None, "drafted": None})
    request = silent | {"steps": None, "window": share}
    counters = told(steps=2, drafted=6, accepted=2, accepted_per_position=(1, 1, 0))
    entry = entry_of(baseline(1), visit("dflash-b4", 1, [request], acceptance=counters))
    assert entry["acceptance_length"]["value"] == pytest.approx(4 / 2)
    assert entry["acceptance_length"]["ci_low"] is None
    assert entry["acceptance_rate_marginal"] == pytest.approx([1 / 2, 1 / 2, 0])
    assert entry["accepted_histogram"] == [1, 0, 1, 0]
    assert (entry["drafted_tokens"], entry["accepted_tokens"]) == (6, 2)


def test_a_backend_that_tells_nothing_has_no_tau() -> None:
    silent = answer("p0", steps(0, 0, drafted=0))
    share = silent["window"].model_copy(update={"steps": None, "accepted": None, "drafted": None})
    entry = entry_of(
        baseline(1), visit("dflash-b4", 1, [silent | {"steps": None, "window": share}])
    )
    for key in ("verify_steps", "drafted_tokens", "accepted_tokens", "acceptance_rate"):
        assert entry[key] is None
    assert entry["acceptance_length"]["value"] is None
    assert entry["break_even_tau"]["value"] is None
    assert entry["speedup"]["value"] is not None


def test_counters_go_before_the_part_of_the_requests_that_tells() -> None:
    silent = answer("p1", steps(0, 0, 0, 0, drafted=0)) | {"steps": None}
    requests = [summed("p0", accepted=6, passes=2, histogram=(0, 0, 0, 2)), silent]
    counters = told(steps=6, drafted=18, accepted=6, accepted_per_position=(4, 2, 0))
    entry = entry_of(baseline(1), visit("dflash-b4", 1, requests, acceptance=counters))
    assert entry["acceptance_length"]["value"] == pytest.approx(12 / 6)
    assert (entry["verify_steps"], entry["drafted_tokens"], entry["accepted_tokens"]) == (6, 18, 6)
    assert entry["accepted_histogram"] == [2, 2, 2, 0]


def test_what_a_failed_request_cost_the_counters_nobody_knows() -> None:
    silent = answer("p0", steps(0, 0, 0, 0, drafted=0)) | {"steps": None}
    counters = told(steps=10, drafted=30, accepted=2, accepted_per_position=(2, 0, 0))
    visits = visit("dflash-b4", 1, [silent, failure("p1")], acceptance=counters)
    entry = entry_of(baseline(1), visits)
    assert entry["acceptance_length"]["value"] is None
    assert entry["verify_steps"] is None
    assert entry["accepted_histogram"] == []


def test_what_is_counted_per_visit_is_summed() -> None:
    one = [answer("p0", steps(1, 1))]
    visits = [
        visit("dflash-b4", number, one, backend={"preemptions": lost, "version": f"v{number}"})
        for number, lost in ((1, 5), (2, 0))
    ]
    entry = entry_of(baseline(1), *visits)
    assert entry["backend"] == {"preemptions": 5, "version": "v2"}


def test_sums_that_do_not_add_up_are_a_broken_record() -> None:
    bad = summed("p0", accepted=6, passes=2)
    bad["acceptance"] = told(steps=2, drafted=6, accepted=5, overshoot=0)
    sample = read_tables(visit("dflash-b4", 1, [bad])).samples()[CELL, "dflash-b4"]
    (sentence,) = broken_records(sample)
    assert "steps + accepted - overshoot = output tokens - 1 fails in 1 of 1" in sentence
