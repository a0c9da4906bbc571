"""TensorRT-LLM's numbers, on three routes whose names differ between versions.

/metrics              JSON, a list of iterations since the last read (`enable_iter_perf_stats`): reading it empties it.
                      specDecodingStats: numDraftTokens, numAcceptedTokens, and numRequestsWithDraftTokens, which summed
                      over iterations are drafts, accepted drafts, and verify steps with drafts
                      (cpp/include/tensorrt_llm/executor/types.h; its acceptanceLength is 1 + accepted / these)
/prometheus/metrics   trtllm_spec_decode_num_draft_tokens_total and ..._num_accepted_tokens_total, of iterations;
                      trtllm_spec_decode_drafted_tokens_total and ..._accepted_tokens_total by `token_position`, of
                      ended requests: every step with drafts drafts a position 0, so that its count is the steps
                      (tensorrt_llm/metrics/collector.py, main of 2026)
/perf_metrics         per request: total_draft_tokens, total_accepted_draft_tokens; no steps

Read from source and documentation only: none of it ran here, and whether drafts accepted past the end are counted is
not known. So steps are those with drafts, and overshoot stays null unless the sum of tokens tells it.
"""

import json
from collections.abc import Mapping
from typing import Any

from dflash_bench.records.schema import Acceptance
from dflash_bench.runners.acceptance.canonical import settle_counted
from dflash_bench.runners.acceptance.prometheus import Counters, Delta, read

ITERATION = "iteration:"
SPEC = "trtllm_spec_decode_"


def counters(text: str) -> Counters | None:
    """Read a snapshot of either route; None if it is neither."""
    if not text.lstrip().startswith("["):
        return read(text)
    try:
        iterations = json.loads(text)
    except ValueError:
        return None
    sums: dict[str, float] = {}
    for entry in iterations:
        stats = json.loads(entry) if isinstance(entry, str) else entry
        for name, value in (stats.get("specDecodingStats") or {}).items():
            if isinstance(value, int | float):
                sums[f"{ITERATION}{name}"] = sums.get(f"{ITERATION}{name}", 0.0) + value
    return Counters({(name, frozenset()): value for name, value in sums.items()}, drained=True)


def between(delta: Delta) -> Acceptance | None:
    """Return what was drafted and kept in between; None where nothing was."""
    if delta.after.drained:
        drafted, accepted, steps = (
            delta.count(f"{ITERATION}{name}")
            for name in ("numDraftTokens", "numAcceptedTokens", "numRequestsWithDraftTokens")
        )
        return _record("tensorrt-llm /metrics", steps, drafted, accepted, None, None, None)
    by_drafted = delta.by_position(f"{SPEC}drafted_tokens_total", "token_position")
    by_accepted = delta.by_position(f"{SPEC}accepted_tokens_total", "token_position")
    ended = delta.count("trtllm_request_success_total")
    output_tokens = delta.count("trtllm_generation_tokens_total")
    source = "tensorrt-llm /prometheus/metrics"
    if by_drafted and by_accepted:
        missing = (0,) * (len(by_drafted) - len(by_accepted))
        sums = by_drafted[0], sum(by_drafted), sum(by_accepted)
        return _record(source, *sums, output_tokens, ended, by_accepted + missing)
    drafted = delta.count(f"{SPEC}num_draft_tokens_total")
    accepted = delta.count(f"{SPEC}num_accepted_tokens_total")
    return _record(source, None, drafted, accepted, None, None, None)


def _record(
    source: str,
    drafts: int | None,
    drafted: int | None,
    accepted: int | None,
    output_tokens: int | None,
    requests: int | None,
    per_position: tuple[int, ...] | None,
) -> Acceptance | None:
    if not drafted or accepted is None:
        return None
    if drafts is None:
        return Acceptance(source=source, drafted=drafted, accepted=accepted)
    return settle_counted(
        source,
        drafts=drafts,
        drafted=drafted,
        accepted=accepted,
        output_tokens=output_tokens,
        requests=requests,
        per_position=per_position,
    )


def of_perf_metrics(row: Mapping[str, Any]) -> Acceptance | None:
    """Return what a row of /perf_metrics tells of its request; None where it drafted nothing."""
    told = row.get("perf_metrics", row)
    told = told.get("speculative_decoding", told)
    drafted = told.get("total_draft_tokens")
    if not drafted:
        return None
    accepted = int(told["total_accepted_draft_tokens"])
    return Acceptance(source="tensorrt-llm /perf_metrics", drafted=int(drafted), accepted=accepted)
