"""SGLang's numbers: `meta_info` of a request, and what little its server-wide figures can tell.

srt/managers/tokenizer_manager.py, _calculate_spec_decoding_metrics, and scheduler_components/batch_result_processor.py
(0.5.23). Every decoding pass of a speculating server is a verify pass:

    spec_verify_ct             verify passes; all fields are absent when it is 0
    spec_num_correct_drafts    drafts accepted, counted before the answer is cut
    spec_num_proposed_drafts   spec_verify_ct * (num_draft_tokens - 1), also where a tree or n-gram proposed fewer
    spec_correct_drafts_histogram    passes by accepted drafts, as long as the most seen
    spec_accept_length         completion_tokens / spec_verify_ct: the prefill's token is in the numerator, tokens cut
                               at the end are not, so it is not read; spec_accept_rate = correct / proposed

A request that was retracted (`num_retractions`) is prefilled again, and each such prefill gives a token without a
verify pass: of it no record is made.

Builds before (0.5.9 and its neighbours) say spec_accept_token_num, spec_draft_token_num and spec_accept_histogram.

Server-wide: `/server_info` has `avg_spec_accept_length`, committed tokens per verify pass since the start or the last
flush, added up only every `decode_log_interval` passes: a mean without its count, from which no record can be made. On
/metrics, `sglang:spec_verify_calls_total` (of ended requests) is the one counter; `sglang:spec_accept_length` and its
like are gauges of the last logged interval, and 0.0 without speculation.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dflash_bench.records.schema import Acceptance, Steps
from dflash_bench.runners.acceptance.canonical import per_position_of, settle, steps_of
from dflash_bench.runners.acceptance.prometheus import Delta

SOURCE = "sglang meta_info"


def told_in(payload: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the object that holds the spec_* fields of a response, wherever this route and build put it.

    /generate and old builds: `meta_info`; OpenAI's routes: `choices[0].meta_info` (whole, with `return_meta_info`) or
    `sglext.spec_tokens_details` (streams too, with `return_spec_tokens_details`), a list of one if asked as a list.
    """
    choices = payload.get("choices") or [{}]
    details = (payload.get("sglext") or {}).get("spec_tokens_details")
    places = (payload.get("meta_info"), choices[0].get("meta_info"), details)
    for place in places:
        found = place[0] if isinstance(place, list) and place else place
        if isinstance(found, Mapping) and found.get("spec_verify_ct"):
            return found
    return None


def of_meta_info(
    told: Mapping[str, Any] | None, chunks: Sequence[int], output_tokens: int
) -> tuple[Acceptance | None, Steps | None]:
    """Return one request's record and its steps, each None where SGLang does not tell it.

    `chunks`: tokens of each event, the prefill's first. Steps are told where there was one event per verify pass, and
    their accepted drafts are those of the histogram.
    """
    if told is None or not told.get("spec_verify_ct"):
        return None, None
    drafts = int(told["spec_verify_ct"])
    accepted = _first(told, "spec_num_correct_drafts", "spec_accept_token_num")
    proposed = _first(told, "spec_num_proposed_drafts", "spec_draft_token_num")
    if accepted is None:
        return None, None
    width = None if proposed is None else proposed // drafts
    bins = told.get("spec_correct_drafts_histogram") or told.get("spec_accept_histogram")
    per_position = None
    if bins:
        bins = [int(n) for n in bins]
        missing = max((width or 0) + 1 - len(bins), 0)
        per_position = per_position_of([*bins, *[0] * missing])
    record = settle(
        SOURCE,
        drafts=drafts,
        drafted=proposed,
        accepted=accepted,
        output_tokens=output_tokens,
        always_drafts=True,
        per_position=per_position,
    )
    # N-gram drafting counts a whole window whether it found a match or not: passes without drafts are not told.
    record = record.model_copy(update={"plain_steps": None})
    return record, _steps(record, width, chunks, drafts)


def _first(told: Mapping[str, Any], *names: str) -> int | None:
    return next((int(told[name]) for name in names if told.get(name) is not None), None)


def _steps(
    record: Acceptance, width: int | None, chunks: Sequence[int], drafts: int
) -> Steps | None:
    if record.overshoot is None or width is None or record.accepted_per_position is None:
        return None
    if list(chunks[:1]) != [1] or len(chunks) != drafts + 1:
        return None
    accepted = [tokens - 1 for tokens in chunks[1:]]
    accepted[-1] += record.overshoot
    seen = tuple(
        sum(n > position for n in accepted) for position in range(len(record.accepted_per_position))
    )
    if seen != record.accepted_per_position:
        return None
    return steps_of([width] * drafts, accepted, record.overshoot)


def of_counters(delta: Delta) -> Acceptance | None:
    """Return what /metrics tells of the requests that ended: verify passes, and what they drafted at most."""
    verifies = delta.count("sglang:spec_verify_calls_total")
    if not verifies:
        return None
    window = delta.after.total("sglang:spec_num_draft_tokens")
    return Acceptance(
        source="sglang /metrics",
        steps=verifies,
        drafted=round(verifies * (window - 1)) if window else None,
    )
