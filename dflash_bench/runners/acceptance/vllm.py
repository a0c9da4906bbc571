"""vLLM's numbers of one request: `metrics.speculative_decoding` of a response.

vllm/v1/metrics/stats.py, RequestSpecDecodeMetrics (0.32.0), under `--per-request-spec-decode-metrics detailed`. A step
is a pass of the scheduler in which the request had drafts; its accepted drafts are counted before the answer is cut at
EOS or `max_tokens` (v1/core/sched/scheduler.py, update_from_output), so that 40 tokens come as 1 + 5 * 8 - 1. Told and
undone: num_spec_steps 0 comes with mean_acceptance_length 1.0, which is no measurement; the lists leave out passes
without drafts (n-gram found nothing, the pass after a preemption). The field is null when a stop string ended the text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dflash_bench.records.schema import Acceptance, Steps
from dflash_bench.runners.acceptance.canonical import of_steps, per_position_of, settle, steps_of

SOURCE = "vllm response"


def of_response(
    told: Mapping[str, Any] | None, chunks: Sequence[int], output_tokens: int
) -> tuple[Acceptance | None, Steps | None]:
    """Return one request's record and its steps, each None where vLLM does not tell it.

    `told`: the field; `chunks`: tokens of each chunk of the stream, the prefill's first. One chunk is one pass unless
    the API process lagged and merged some: a stream that fits the lists pass by pass shows where plain passes were.
    Without such a stream, a method whose listed passes all judged k drafts is taken to have made no others.
    """
    if told is None:
        return None, None
    drafts, width = int(told["num_spec_steps"]), int(told["num_spec_tokens"])
    accepted = [int(n) for n in told.get("per_step_accepted") or ()]
    drafted = [int(n) for n in told.get("per_step_drafted") or ()]
    if drafts == 0 or accepted:
        steps = _by_chunks(accepted, drafted, chunks, output_tokens)
        if steps is not None:
            return of_steps(SOURCE, steps, width), steps
    record = settle(
        SOURCE,
        drafts=drafts,
        drafted=int(told["num_draft_tokens"]),
        accepted=int(told["num_accepted_draft_tokens"]),
        output_tokens=output_tokens,
        always_drafts=int(told["num_draft_tokens"]) == drafts * width,
        last_accepted=accepted[-1] if accepted else None,
        per_position=per_position_of(told["acceptance_histogram"]),
    )
    if record.plain_steps == 0 and record.overshoot is not None and len(accepted) == drafts > 0:
        return record, steps_of(drafted, accepted, record.overshoot)
    return record, None


def _by_chunks(
    accepted: Sequence[int], drafted: Sequence[int], chunks: Sequence[int], output_tokens: int
) -> Steps | None:
    """Return the passes in order, plain ones among them; None if a chunk is not one pass.

    A pass that accepted n drafts sends n + 1 tokens, a plain one sends 1, and the last may be cut. A plain pass and one
    that accepted none look alike, and are alike but for what was drafted: the one that is told first is taken first.
    """
    if sum(chunks) != output_tokens or list(chunks[:1]) != [1]:
        return None
    passes = chunks[1:]
    kept: list[tuple[int, int]] = []
    at, overshoot = 0, 0
    for number, tokens in enumerate(passes, start=1):
        due = accepted[at] + 1 if at < len(accepted) else None
        is_last_of_both = number == len(passes) and at == len(accepted) - 1
        if due is not None and (tokens == due or (is_last_of_both and tokens < due)):
            overshoot = due - tokens
            kept.append((drafted[at], accepted[at]))
            at += 1
        elif tokens == 1:
            kept.append((0, 0))
        else:
            return None
    if at < len(accepted):
        return None
    return steps_of([d for d, _ in kept], [a for _, a in kept], overshoot)
