"""A report becomes a record: steps, the prefill that is a step as well, the cut, the shares."""

from typing import Any

import pytest

from dflash_bench.records.schema import Steps
from dflash_bench.runners.acceptance import canonical
from dflash_bench.runners.worker.report import (
    FirstPass,
    Origin,
    Pass,
    answer_of,
    steps_of,
    totals_of,
)


def _origin(first_pass: FirstPass = "prefill", drafts: bool = True) -> Origin:
    return Origin("fake steps", first_pass, drafts, 5 if drafts else None, frozenset({2}))


def _report(passes: list[Pass], last: int = 9) -> dict[str, Any]:
    count = sum(committed for _, _, committed in passes)
    return {
        "tokens": [*range(10, 9 + count), last],
        "passes": [list(each) for each in passes],
        "at_s": [0.5 + 0.25 * number for number in range(len(passes))],
        "cpu_s": 1.0,
        "peak_memory_bytes": None,
    }


def test_the_prefill_is_no_step_and_the_cut_is_what_was_kept_and_dropped() -> None:
    passes: list[Pass] = [(0, 0, 1), (4, 2, 3), (4, 0, 1), (4, 3, 2)]
    assert steps_of(passes, "prefill") == Steps(
        drafted=(4, 4, 4), accepted=(2, 0, 1), committed=(3, 1, 2), cut=(0, 0, 2)
    )


@pytest.mark.parametrize(
    ("first", "step"),
    [
        ((4, 0, 1), None),  # it gave the prefill's token alone
        ((4, 1, 2), (3, 0, 1, 0)),  # the first draft is the prefill's token
        ((4, 4, 5), (3, 3, 4, 0)),
        ((4, 4, 3), (3, 1, 2, 2)),
    ],
)
def test_a_prefill_that_judged_drafts_is_a_step_of_one_draft_less(
    first: Pass, step: tuple[int, ...] | None
) -> None:
    passes: list[Pass] = [first, (4, 1, 2)]
    steps = steps_of(passes, "both")
    assert steps is not None
    rows = list(zip(steps.drafted, steps.accepted, steps.committed, steps.cut, strict=True))
    assert rows == [*([step] if step else []), (4, 1, 2, 0)]
    assert sum(steps.committed) == first[2] + 2 - 1


@pytest.mark.parametrize("first_pass", ["prefill", "both"])
def test_the_record_keeps_the_identities(first_pass: FirstPass) -> None:
    first: Pass = (0, 0, 1) if first_pass == "prefill" else (4, 2, 3)
    report = _report([first, (4, 4, 5), (0, 0, 1), (4, 3, 2)], last=2)
    answer = answer_of("q", report, _origin(first_pass), None)
    assert answer.output_ids is not None
    assert answer.acceptance is not None
    assert canonical.check(answer.acceptance, len(answer.output_ids)) == []
    assert answer.acceptance.overshoot == 2
    assert answer.acceptance.plain_steps == 1
    assert answer.finish_reason == "eos"
    assert answer.ttft_s == 0.5
    assert answer.e2e_s == 1.25
    share = answer.window
    assert share is not None
    assert share.prefill_s == 0.5
    assert share.decode_s == 0.75
    assert share.decode_tokens == 8, "what came with the prefill took none of the decoding's time"
    assert (share.steps, share.accepted, share.drafted) == (3, 5, 8)


def test_plain_decoding_has_steps_and_no_acceptance() -> None:
    answer = answer_of("q", _report([(0, 0, 1)] * 4), _origin(drafts=False), None)
    assert answer.acceptance is None
    assert answer.steps is not None
    assert answer.steps.committed == (1, 1, 1)
    assert answer.finish_reason == "length"


def test_what_a_pass_kept_may_be_unknown_then_steps_are_not_told_and_sums_are() -> None:
    answer = answer_of("q", _report([(0, 0, 1), (4, 2, 3), (4, None, 2)]), _origin(), None)
    assert answer.steps is None
    told = answer.acceptance
    assert told is not None
    assert (told.steps, told.drafted, told.accepted, told.overshoot) == (2, 8, 3, 0)
    assert told.histogram is None
    assert canonical.check(told, 6) == []


def test_time_stops_at_a_stop_string_and_what_was_done_behind_it_is_cut() -> None:
    report = _report([(0, 0, 1), (4, 2, 3), (4, 2, 3), (4, 0, 1)])
    answer = answer_of("q", report, _origin(), lambda ids: 6)
    assert answer.finish_reason == "stop"
    assert answer.output_ids == (10, 11, 12, 13, 14, 15)
    assert answer.e2e_s == 1.0, "the third pass held the stop"
    assert answer.steps is not None
    assert (answer.steps.committed, answer.steps.cut) == ((3, 2), (0, 1))
    assert answer.acceptance is not None
    assert canonical.check(answer.acceptance, 6) == []
    share = answer.window
    assert share is not None
    assert share.cpu_s is None, "CPU time was not told apart"
    assert (share.steps, share.decode_tokens, share.accepted) == (2, 5, 3)


def test_shares_sum_to_the_window() -> None:
    origin = _origin()
    answers = [
        answer_of(str(size), _report([(0, 0, 1), (4, 2, size)]), origin, None) for size in (1, 2, 3)
    ]
    totals = totals_of(answers, origin, wall_s=9.0, backend={"version": "1"})
    assert totals.window_wall_s == pytest.approx(3 * 0.75)
    assert totals.window_phases is not None
    assert totals.window_phases.decode_s == pytest.approx(0.75)
    assert (totals.steps, totals.cpu_s, totals.occupancy) == (3, 3.0, 1.0)
    assert totals.acceptance is not None
    assert totals.acceptance.steps == 3
    assert totals.acceptance.overshoot == 3


def test_a_failed_request_leaves_no_window() -> None:
    origin = _origin()
    done = answer_of("a", _report([(0, 0, 1)]), origin, None)
    failed = done.model_copy(update={"error": "no", "window": None})
    totals = totals_of([done, failed], origin, 1.0, {})
    assert (totals.window_wall_s, totals.window_phases, totals.row_steps) == (None, None, None)
