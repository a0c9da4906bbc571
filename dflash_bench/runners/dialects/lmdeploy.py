"""LMDeploy: OpenAI's /v1/completions, text in and out, with vLLM's counters under a name of its own.

Read in lmdeploy/serve/openai/endpoints/completions.py and serve/core/async_engine.py (0.18.0); it did not run here.
`completion_tokens` leaves out the EOS that ended the text (the engine drops it before it counts), so one is added where
the finish reason is "stop". Prompts go out as text, chunks are not counted, and this route knows neither presence
nor frequency penalty: with these set, other engines sample from another law. top_k left out would be 50.
"""

from collections.abc import Sequence
from dataclasses import replace

from dflash_bench.runners.acceptance import spec_decode
from dflash_bench.runners.acceptance.prometheus import Delta
from dflash_bench.runners.base import Request
from dflash_bench.runners.client.exchange import Wire
from dflash_bench.runners.dialects.base import Event, Gained, Reply, TellsDrafts
from dflash_bench.runners.dialects.completions import body
from dflash_bench.runners.dialects.openai import OpenAI
from dflash_bench.spec import SamplingSpec


class Lmdeploy(OpenAI):
    """LMDeploy's api_server."""

    name = "lmdeploy"
    tells_drafts: TellsDrafts = "counters"

    def wire(
        self, request: Request, sampling: SamplingSpec, temperature: float, model: str
    ) -> Wire:
        """Write the request down."""
        asked = body(request, sampling, temperature, model)
        asked |= {
            "max_completion_tokens": asked.pop("max_tokens"),
            "repetition_ngram_size": 0,
        }
        return Wire(request.id, "/v1/completions", asked)

    def reply(self, events: Sequence[Event]) -> Reply:
        """Read an answer, and count the token that ended it."""
        reply = super().reply(events)
        if reply.output_tokens is None or reply.finish_reason != "eos":
            return reply
        return replace(reply, output_tokens=reply.output_tokens + 1)

    def gained(self, delta: Delta) -> Gained:
        """Say what the counters gained. They count ended requests, and tokens as the usage does, without the last."""
        acceptance = spec_decode.between(delta, "lmdeploy", "lmdeploy /metrics")
        told = {
            "queue_s": delta.seconds("lmdeploy:request_queue_time_seconds_sum"),
            "cached_prompt_tokens": delta.count("lmdeploy:cached_tokens_total"),
        }
        return Gained(acceptance, told)
