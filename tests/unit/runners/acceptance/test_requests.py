"""One request as each backend would tell it: the record is the same, and nothing is made up."""

from itertools import accumulate
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dflash_bench.records.histogram import histogram_of
from dflash_bench.records.schema import Acceptance, Steps
from dflash_bench.runners.acceptance import llama_cpp, sglang, tensorrt_llm, vllm
from dflash_bench.runners.acceptance.canonical import check, of_steps, steps_of

WIDTH = 4


@st.composite
def requests(draw: st.DrawFn, plain: bool) -> Steps:
    """A request of some passes; where `plain`, some of them without drafts; its end may drop tokens."""
    size = st.integers(0, WIDTH) if plain else st.just(WIDTH)
    drafted = draw(st.lists(size, max_size=12))
    accepted = [draw(st.integers(0, most)) for most in drafted]
    overshoot = draw(st.integers(0, accepted[-1] if accepted else 0))
    steps = steps_of(drafted, accepted, overshoot)
    assert steps is not None
    return steps


def raw(steps: Steps) -> list[tuple[int, int]]:
    """Drafts and accepted drafts of each pass, before the end was cut."""
    return [
        (d, kept + cut - 1)
        for d, kept, cut in zip(steps.drafted, steps.committed, steps.cut, strict=True)
    ]


def chunks_of(steps: Steps) -> list[int]:
    return [1, *steps.committed]


def as_vllm(steps: Steps) -> dict[str, Any]:
    judged = [(d, a) for d, a in raw(steps) if d]
    per_position = [sum(a > i for _, a in judged) for i in range(WIDTH)]
    told: dict[str, Any] = {
        "num_spec_steps": len(judged),
        "num_accepted_draft_tokens": sum(a for _, a in judged),
        "num_draft_tokens": sum(d for d, _ in judged),
        "num_spec_tokens": WIDTH,
        "acceptance_histogram": list(histogram_of(per_position, len(judged))),
        "mean_acceptance_length": 1.0,
    }
    if judged:
        told["per_step_accepted"] = [a for _, a in judged]
        told["per_step_drafted"] = [d for d, _ in judged]
    return told


def as_llama(steps: Steps) -> tuple[dict[str, int], list[dict[str, int]]]:
    drafted = list(accumulate(d for d, _ in raw(steps)))
    accepted = list(accumulate(a for _, a in raw(steps)))
    running, told = [{"predicted_n": 1}], 1
    for number, committed in enumerate(steps.committed):
        for _ in range(committed):
            told += 1
            event = {"predicted_n": told}
            if drafted[number]:
                event |= {"draft_n": drafted[number], "draft_n_accepted": accepted[number]}
            running.append(event)
    return running[-1], running


@given(requests(plain=False))
def test_a_drafter_of_every_pass_reads_the_same_everywhere(steps: Steps) -> None:
    tokens = 1 + sum(steps.committed)
    expected = of_steps("", steps, WIDTH)
    record, listed = vllm.of_response(as_vllm(steps), chunks_of(steps), tokens)
    assert record is not None
    assert listed == steps
    assert record.model_copy(update={"source": ""}) == expected
    assert check(record, tokens) == []

    last, running = as_llama(steps)
    record, listed = llama_cpp.of_timings(last, running, hit_limit=False, drafts=True)
    assert record is not None
    assert listed == steps
    assert check(record, tokens) == []

    if steps.committed:
        seen = expected.histogram or ()
        meta = {
            "spec_verify_ct": expected.steps,
            "spec_num_correct_drafts": expected.accepted,
            "spec_num_proposed_drafts": expected.drafted,
            "spec_correct_drafts_histogram": list(seen),
            "spec_accept_length": tokens / len(steps.committed),
        }
        record, listed = sglang.of_meta_info(meta, chunks_of(steps), tokens)
        assert record is not None
        assert listed == steps
        # It counts whole windows, so that passes without drafts are not told.
        assert record.plain_steps is None
        assert record.model_copy(update={"source": "", "plain_steps": 0}) == expected


@given(requests(plain=True))
def test_vllm_finds_plain_passes_in_the_stream(steps: Steps) -> None:
    tokens = 1 + sum(steps.committed)
    record, listed = vllm.of_response(as_vllm(steps), chunks_of(steps), tokens)
    assert record is not None
    assert listed is not None
    assert (listed.committed, listed.cut) == (steps.committed, steps.cut)
    assert (record.steps, record.plain_steps) == (len(steps.drafted), steps.drafted.count(0))
    assert check(record, tokens) == []


@given(requests(plain=True))
def test_vllm_without_a_stream_tells_the_truth_or_nothing(steps: Steps) -> None:
    tokens = 1 + sum(steps.committed)
    record, _ = vllm.of_response(as_vllm(steps), (), tokens)
    assert record is not None
    if any(0 < d < WIDTH for d in steps.drafted) and record.steps is not None:
        assert record.steps == len(steps.drafted)
    assert check(record, tokens) == []


@given(requests(plain=True))
def test_llama_cpp_tells_plain_passes_by_the_running_counts(steps: Steps) -> None:
    tokens = 1 + sum(steps.committed)
    last, running = as_llama(steps)
    record, listed = llama_cpp.of_timings(last, running, hit_limit=False, drafts=True)
    assert record is not None
    assert listed is not None
    assert listed.committed == steps.committed
    assert (record.steps, record.plain_steps) == (len(steps.drafted), steps.drafted.count(0))
    assert check(record, tokens) == []


def merged(steps: Steps) -> list[int]:
    """The stream of an API process that lagged: the first two decoding passes in one chunk."""
    return [1, sum(steps.committed[:2]), *steps.committed[2:]]


def test_chunks_that_merged_cost_vllm_no_step() -> None:
    steps = steps_of([4, 4, 4], [2, 4, 3], 2)
    assert steps is not None
    record, listed = vllm.of_response(as_vllm(steps), merged(steps), 11)
    assert listed == steps
    assert record is not None
    assert record.overshoot == 2


def test_chunks_that_merged_hide_n_grams_plain_passes_and_nothing_is_guessed() -> None:
    steps = steps_of([0, 0, 3], [0, 0, 2], 0)
    assert steps is not None
    record, listed = vllm.of_response(as_vllm(steps), merged(steps), 6)
    assert listed is None
    assert record is not None
    assert (record.steps, record.plain_steps, record.overshoot) == (None, None, None)
    assert (record.drafted, record.accepted) == (3, 2)


def test_no_verify_step_is_no_acceptance_length_of_one() -> None:
    nothing = steps_of([], [], 0)
    assert nothing is not None
    record, listed = vllm.of_response(as_vllm(nothing), [1], 1)
    assert record is not None
    assert record.steps == 0
    assert listed == nothing
    assert vllm.of_response(None, [1, 1], 2) == (None, None)
    assert sglang.of_meta_info({"spec_verify_ct": 0}, [1], 1) == (None, None)
    assert sglang.of_meta_info(None, [1], 1) == (None, None)


def test_sglang_shows_no_steps_where_events_and_histogram_disagree() -> None:
    meta = {
        "spec_verify_ct": 2,
        "spec_num_correct_drafts": 3,
        "spec_num_proposed_drafts": 6,
        "spec_correct_drafts_histogram": [0, 1, 1],
    }
    record, listed = sglang.of_meta_info(meta, [1, 4, 1], 6)
    assert listed is None
    assert record is not None
    assert (record.steps, record.overshoot) == (2, 0)
    record, listed = sglang.of_meta_info(meta, [1, 5], 6)
    assert listed is None
    assert record is not None
    assert record.steps == 2


def test_llama_cpp_without_running_counts_knows_steps_only_at_the_limit() -> None:
    final = {"predicted_n": 40, "draft_n": 186, "draft_n_accepted": 9}
    at_limit, _ = llama_cpp.of_timings(final, (), hit_limit=True, drafts=True)
    assert at_limit is not None
    assert (at_limit.steps, at_limit.plain_steps) == (30, None)
    at_eos, _ = llama_cpp.of_timings(final, (), hit_limit=False, drafts=True)
    assert at_eos == Acceptance(source="llama.cpp timings", drafted=186, accepted=9)
    assert llama_cpp.of_timings(final, (), hit_limit=True, drafts=False) == (None, None)


def test_llama_cpp_counts_steps_although_a_token_was_held_back() -> None:
    steps = steps_of([4, 4, 4], [2, 1, 4], 3)
    assert steps is not None
    last, running = as_llama(steps)
    del running[2]
    record, listed = llama_cpp.of_timings(last, running, hit_limit=False, drafts=True)
    assert listed is None
    assert record is not None
    assert (record.steps, record.overshoot) == (3, 3)
    del running[-2]
    record, _ = llama_cpp.of_timings(last, running, hit_limit=False, drafts=True)
    assert record is not None
    assert (record.steps, record.overshoot) == (None, None)


def test_tensorrt_llm_tells_drafts_of_a_request_and_no_steps() -> None:
    row = {
        "perf_metrics": {
            "speculative_decoding": {"total_draft_tokens": 210, "total_accepted_draft_tokens": 10}
        }
    }
    record = tensorrt_llm.of_perf_metrics(row)
    assert record is not None
    assert (record.steps, record.drafted, record.accepted) == (None, 210, 10)
    assert tensorrt_llm.of_perf_metrics({"total_draft_tokens": 0}) is None
