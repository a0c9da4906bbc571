"""llama.cpp's llama-server: its own /completion, with ids in and out, and timings with every token.

Read in tools/server/{server-schema,server-task,server-context}.cpp (October 2026). Its defaults sample (temperature
0.8, top_k 40, top_p 0.95, min_p 0.05) and keep the prompt (`cache_prompt`), so everything is written out; penalties
look at `repeat_last_n` tokens, here at all of them. One event per token, several within a burst; `tokens_predicted`
counts, EOS included. A token whose text is an incomplete UTF-8 sequence has no event and its id is lost in a stream:
then `ids` are None.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dflash_bench.runners.acceptance import prometheus, spec_decode
from dflash_bench.runners.acceptance.llama_cpp import of_timings
from dflash_bench.runners.acceptance.prometheus import Counters, Delta
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

FINISH: dict[str, FinishReason] = {"eos": "eos", "limit": "length", "word": "stop"}


class LlamaCpp:
    """llama-server's native route."""

    name = "llama.cpp"
    takes_ids = True
    tells_drafts: TellsDrafts = "answers"

    def wire(
        self, request: Request, sampling: SamplingSpec, temperature: float, model: str
    ) -> Wire:
        """Write the request down, every sampler of its chain with it."""
        asked: dict[str, Any] = {
            "prompt": list(request.prompt),
            "n_predict": request.max_new_tokens,
            "temperature": temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": 0.0,
            "typical_p": 1.0,
            "top_n_sigma": -1.0,
            "xtc_probability": 0.0,
            "dynatemp_range": 0.0,
            "mirostat": 0,
            "dry_multiplier": 0.0,
            "repeat_penalty": sampling.repetition_penalty,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
            "repeat_last_n": len(request.prompt) + request.max_new_tokens,
            "seed": seed_of(sampling, request),
            "stop": list(request.stop),
            "ignore_eos": False,
            "cache_prompt": False,
            "return_tokens": True,
            "timings_per_token": True,
            "stream": True,
        }
        return Wire(request.id, "/completion", asked)

    def reply(self, events: Sequence[Event]) -> Reply:
        """Read an answer."""
        chunks: list[tuple[float, int]] = []
        ids: list[int] = []
        texts: list[str] = []
        running: list[Mapping[str, Any]] = []
        told = 0
        found, error = objects(events)
        for at_s, event in found:
            now = int(event.get("tokens_predicted", told))
            ids += event.get("tokens") or []
            texts.append(event.get("content") or "")
            if now > told:
                chunks.append((at_s, now - told))
                told = now
            if event.get("stop"):
                return _reply(event, ids, "".join(texts), chunks, running)
            running.append(event.get("timings") or {})
        return Reply(
            error=error or "the answer ended before the server said why (no event with stop)"
        )

    def counters(self, metrics: str) -> Counters | None:
        """Read /metrics, which a server started with `--metrics` has."""
        return prometheus.read(metrics)

    def gained(self, delta: Delta) -> Gained:
        """Say what the counters gained. Requests are not counted there, so that plain steps cannot be told."""
        acceptance = spec_decode.between(delta, "llamacpp", "llama.cpp /metrics")
        told = {"cached_prompt_tokens": delta.count("llamacpp:prompt_tokens_cached_total")}
        return Gained(acceptance, told)


def _reply(
    last: Mapping[str, Any],
    ids: list[int],
    text: str,
    chunks: list[tuple[float, int]],
    running: list[Mapping[str, Any]],
) -> Reply:
    """Put the answer together: `last` is its final event, `running` the timings of those that bore a token."""
    output_tokens = int(last["tokens_predicted"])
    timings = last.get("timings") or {}
    types = str((last.get("generation_settings") or {}).get("speculative.types", ""))
    drafts = "draft_n" in timings or any(t not in ("", "none") for t in types.split(","))
    stop_type = str(last.get("stop_type"))
    acceptance, steps = of_timings(
        timings,
        running if all("predicted_n" in t for t in running) else (),
        hit_limit=stop_type == "limit",
        drafts=drafts and "predicted_n" in timings,
    )
    streamed = bool(running)
    return Reply(
        ids=tuple(ids) if len(ids) == output_tokens else None,
        text=text,
        output_tokens=output_tokens,
        finish_reason=FINISH.get(stop_type),
        prompt_tokens=last.get("tokens_evaluated"),
        cached_tokens=timings.get("cache_n"),
        chunks=tuple(chunks) if streamed else (),
        first_s=chunks[0][0] if streamed and chunks else None,
        last_s=chunks[-1][0] if streamed and chunks else None,
        acceptance=acceptance,
        steps=steps,
    )
