"""vLLM: OpenAI's /v1/completions with ids as prompt, ids in every chunk, and acceptance in the last one.

Read in vllm/entrypoints/openai/completion/{protocol,serving}.py (0.32.0). `token_ids` hold the EOS token, and usage
counts it; its text is left out. A stop text ends the ids with the token that completed it. Chunks merge when the API
process lags. Errors come with HTTP 400, or inside a stream that began with 200. The metrics of the request ride on the
usage chunk, the last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dflash_bench.runners.acceptance import prometheus, spec_decode
from dflash_bench.runners.acceptance.prometheus import Counters, Delta
from dflash_bench.runners.acceptance.vllm import of_response
from dflash_bench.runners.base import Request
from dflash_bench.runners.client.exchange import Wire
from dflash_bench.runners.dialects.base import Event, Gained, Reply, TellsDrafts
from dflash_bench.runners.dialects.completions import body, read, reply_of
from dflash_bench.spec import SamplingSpec


class Vllm:
    """vLLM's OpenAI server."""

    name = "vllm"
    takes_ids = True
    tells_drafts: TellsDrafts = "counters"

    def wire(
        self, request: Request, sampling: SamplingSpec, temperature: float, model: str
    ) -> Wire:
        """Write the request down, its prompt as ids."""
        asked = body(request, sampling, temperature, model)
        asked["prompt"] = list(request.prompt)
        asked["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        asked |= {
            "min_tokens": 0,
            "include_stop_str_in_output": False,
            "spaces_between_special_tokens": False,
            "add_special_tokens": False,
            "return_token_ids": True,
        }
        return Wire(request.id, "/v1/completions", asked)

    def reply(self, events: Sequence[Event]) -> Reply:
        """Read an answer."""
        stream = read(events)
        told = [payload["metrics"] for payload in stream.payloads if payload.get("metrics")]
        metrics: Mapping[str, Any] = told[-1] if told else {}
        reply = reply_of(stream)
        if reply.error is not None:
            return reply
        reply = replace(reply, queue_s=_seconds(metrics.get("queue_time_ms")))
        if reply.output_tokens is None:
            return reply
        acceptance, steps = of_response(
            metrics.get("speculative_decoding"),
            [tokens for _, tokens in stream.chunks],
            reply.output_tokens,
        )
        return replace(reply, acceptance=acceptance, steps=steps)

    def counters(self, metrics: str) -> Counters | None:
        """Read /metrics."""
        return prometheus.read(metrics)

    def gained(self, delta: Delta) -> Gained:
        """Say what the counters gained. Tokens and requests are those of requests that ended.

        vLLM's "inter-token latency" has one sample per request and decoding pass, whatever the pass committed
        (v1/metrics/stats.py, update_from_output), so that its count is the number of passes, plain ones included.
        """
        doubts = (
            ["this is a diffusion language model: it counts denoising steps, and accepts no drafts"]
            if delta.count("vllm:diffusion_num_denoising_steps_total")
            else []
        )
        acceptance = spec_decode.between(
            delta,
            "vllm",
            "vllm /metrics",
            output_tokens=delta.count("vllm:request_generation_tokens_sum"),
            requests=delta.count("vllm:request_generation_tokens_count"),
            passes=delta.count("vllm:inter_token_latency_seconds_count"),
        )
        cache = delta.after.labels("vllm:cache_config_info")
        blocks, size = cache.get("num_gpu_blocks", ""), cache.get("block_size", "")
        positions = delta.after.by("vllm:spec_decode_num_accepted_tokens_per_pos_total", "position")
        told = {
            "ended_requests": delta.count("vllm:request_generation_tokens_count"),
            "preemptions": delta.count("vllm:num_preemptions_total"),
            "queue_s": delta.seconds("vllm:request_queue_time_seconds_sum"),
            "cached_prompt_tokens": delta.count("vllm:prompt_tokens_cached_total"),
            "prefix_cache": {"True": True, "False": False}.get(
                cache.get("enable_prefix_caching", "")
            ),
            "kv_capacity_tokens": int(blocks) * int(size)
            if blocks.isdecimal() and size.isdecimal()
            else None,
            "num_speculative_tokens": len(positions) or None,
        }
        return Gained(acceptance, told, doubts)


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
