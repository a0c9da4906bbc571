"""SGLang: its own /generate, with ids in and out, and `meta_info` in every event.

Read in sglang/srt/managers/{tokenizer_manager,schedule_batch,scheduler_components/output_streamer}.py (0.5.23). Text
and ids are cumulative from event to event unless the server runs with `--incremental-streaming-output`;
`completion_tokens` always is, and which it is shows in the ids. Ids hold the EOS token and the count counts it; the
text leaves it out. The spec_* fields come with the last event. A request that the server aborts ends with
finish_reason "abort".
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dflash_bench.runners.acceptance import prometheus
from dflash_bench.runners.acceptance.prometheus import Counters, Delta
from dflash_bench.runners.acceptance.sglang import of_counters, of_meta_info, told_in
from dflash_bench.runners.base import Request
from dflash_bench.runners.client.exchange import Wire
from dflash_bench.runners.dialects.base import (
    Event,
    FinishReason,
    Gained,
    Reply,
    TellsDrafts,
    seed_of,
)
from dflash_bench.runners.dialects.completions import objects
from dflash_bench.spec import SamplingSpec

AVERAGE = "server_info:avg_spec_accept_length"


class Sglang:
    """SGLang's native route."""

    name = "sglang"
    takes_ids = True
    tells_drafts: TellsDrafts = "answers"

    def wire(
        self, request: Request, sampling: SamplingSpec, temperature: float, model: str
    ) -> Wire:
        """Write the request down. The seed counts only with `--enable-deterministic-inference`."""
        settings = {
            "max_new_tokens": request.max_new_tokens,
            "min_new_tokens": 0,
            "temperature": temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or -1,
            "min_p": 0.0,
            "frequency_penalty": sampling.frequency_penalty,
            "presence_penalty": sampling.presence_penalty,
            "repetition_penalty": sampling.repetition_penalty,
            "sampling_seed": seed_of(sampling, request),
            "stop": list(request.stop),
            "ignore_eos": False,
            "no_stop_trim": False,
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
        }
        asked = {"input_ids": list(request.prompt), "sampling_params": settings, "stream": True}
        return Wire(request.id, "/generate", asked)

    def reply(self, events: Sequence[Event]) -> Reply:
        """Read an answer."""
        chunks: list[tuple[float, int]] = []
        ids: list[int] = []
        texts: list[str] = []
        told = 0
        last: Mapping[str, Any] = {}
        found, error = objects(events)
        for at_s, chunk in found:
            last = chunk
            now = int(chunk.get("meta_info", {}).get("completion_tokens", told))
            shown = list(chunk.get("output_ids") or [])
            text = chunk.get("text") or ""
            # The list may have grown by the time it was written out: no shorter than the count is cumulative.
            if len(shown) >= now:
                ids, texts = shown, [text]
            else:
                ids, texts = [*ids, *shown], [*texts, text]
            if now > told:
                chunks.append((at_s, now - told))
                told = now
        if error is not None:
            return Reply(error=error)
        return _reply(last, ids, "".join(texts), chunks, len(events) > 1)

    def counters(self, metrics: str) -> Counters | None:
        """Read /metrics, or /server_info, of which only a cumulative mean is left."""
        if not metrics.lstrip().startswith("{"):
            return prometheus.read(metrics)
        try:
            info = json.loads(metrics)
        except ValueError:
            return None
        means = [
            state["avg_spec_accept_length"]
            for state in info.get("internal_states") or []
            if state.get("avg_spec_accept_length") is not None
        ]
        samples = {(AVERAGE, frozenset({("state", str(i))})): m for i, m in enumerate(means)}
        return Counters(samples)

    def gained(self, delta: Delta) -> Gained:
        """Say what /metrics gained; of /server_info nothing can be said of a visit."""
        capacity = delta.after.total("sglang:max_total_num_tokens")
        # The counter of retractions appears with the first one: without it, nothing is told.
        told = {
            "ended_requests": delta.count("sglang:num_requests_total"),
            "preemptions": delta.count("sglang:num_retracted_requests_total"),
            "queue_s": delta.seconds("sglang:queue_time_seconds_sum"),
            "cached_prompt_tokens": delta.count("sglang:cached_tokens_total"),
            "kv_capacity_tokens": None if capacity is None else round(capacity),
        }
        return Gained(of_counters(delta), told)


def _reply(
    last: Mapping[str, Any],
    ids: list[int],
    text: str,
    chunks: list[tuple[float, int]],
    streamed: bool,
) -> Reply:
    meta = last.get("meta_info") or {}
    finish = meta.get("finish_reason")
    if not isinstance(finish, Mapping):
        return Reply(error="the answer ended before the server said why (no finish_reason)")
    if finish.get("matched") == "NaN happened":
        return Reply(error="the server met NaN in the target's logits and ended the answer")
    if finish.get("type") == "abort":
        return Reply(error=f"the server aborted the request: {finish.get('message')}")
    output_tokens = int(meta["completion_tokens"])
    matched_text = isinstance(finish.get("matched"), str)
    reasons: dict[str, FinishReason] = {
        "length": "length",
        "stop": "stop" if matched_text else "eos",
    }
    counts = [tokens for _, tokens in chunks]
    drafted = None if meta.get("num_retractions") else told_in(last)
    acceptance, steps = of_meta_info(drafted, counts if streamed else (), output_tokens)
    reply = Reply(
        ids=tuple(ids) if len(ids) == output_tokens else None,
        text=text,
        output_tokens=output_tokens,
        finish_reason=reasons.get(str(finish.get("type"))),
        prompt_tokens=meta.get("prompt_tokens"),
        cached_tokens=meta.get("cached_tokens"),
        queue_s=meta.get("queue_time"),
        acceptance=acceptance,
        steps=steps,
    )
    if not streamed or not chunks:
        return reply
    return replace(reply, chunks=tuple(chunks), first_s=chunks[0][0], last_s=chunks[-1][0])
