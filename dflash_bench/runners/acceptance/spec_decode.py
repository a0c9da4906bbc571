"""The four counters that servers took over from vLLM, under prefixes of their own.

    PREFIX:spec_decode_num_drafts_total                     passes that judged drafts
    PREFIX:spec_decode_num_draft_tokens_total               drafts that they judged
    PREFIX:spec_decode_num_accepted_tokens_total            drafts that they kept
    PREFIX:spec_decode_num_accepted_tokens_per_pos_total    the same by `position`, from 0: not conditional

vllm/v1/spec_decode/metrics.py and v1/core/sched/scheduler.py (0.32.0); lmdeploy/metrics/loggers.py (0.18.0);
llama.cpp tools/server/server-task.cpp (October 2026). In all three a pass without a draft is not counted, and drafts
accepted past EOS or the limit are. Their "mean acceptance length" is 1 + accepted / drafts, which is tau only where no
token was dropped and no pass was plain; hence the output tokens and requests, where the server counts them too.
"""

from dflash_bench.records.histogram import histogram_of
from dflash_bench.records.schema import Acceptance
from dflash_bench.runners.acceptance.canonical import settle_counted
from dflash_bench.runners.acceptance.prometheus import Delta


def between(
    delta: Delta,
    prefix: str,
    source: str,
    *,
    output_tokens: int | None = None,
    requests: int | None = None,
    passes: int | None = None,
) -> Acceptance | None:
    """Return what the counters gained; None where the server does not speculate, or made no step.

    `output_tokens`, `requests`: of the requests that ended in between; `passes`: all decoding passes of each of them,
    with drafts or without, summed, where the server counts these. Without passes, a method that judged k drafts in
    every pass is taken to draft in every pass; one that did not (n-gram) may have had plain ones, and its steps stay
    null wherever the sum of tokens does not tell them from dropped tokens.
    """
    counter = f"{prefix}:spec_decode_num_"
    drafts = delta.count(f"{counter}drafts_total")
    drafted = delta.count(f"{counter}draft_tokens_total")
    accepted = delta.count(f"{counter}accepted_tokens_total")
    if drafts is None or drafted is None or accepted is None:
        return None
    per_position = delta.by_position(f"{counter}accepted_tokens_per_pos_total")
    if (
        passes is not None
        and passes >= drafts
        and output_tokens is not None
        and requests is not None
    ):
        overshoot = passes + accepted - (output_tokens - requests)
        if overshoot >= 0 and passes:
            return Acceptance(
                source=source,
                steps=passes,
                plain_steps=passes - drafts,
                drafted=drafted,
                accepted=accepted,
                overshoot=overshoot,
                accepted_per_position=per_position,
                histogram=None if per_position is None else histogram_of(per_position, passes),
            )
    record = settle_counted(
        source,
        drafts=drafts,
        drafted=drafted,
        accepted=accepted,
        output_tokens=output_tokens,
        requests=requests,
        per_position=per_position,
    )
    return None if drafts == 0 and not record.steps else record
