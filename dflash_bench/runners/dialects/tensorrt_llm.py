"""TensorRT-LLM's trtllm-serve: OpenAI's /v1/completions, with counters on routes of its own.

From source and documentation (tensorrt_llm/serve/openai_protocol.py, main of 2026); it did not run here. Its protocol
refuses fields that it does not know, and knows all that are sent. Prompts go out as ids; answers are text, with counts
in each chunk. Which of its counts hold EOS is not verified.
"""

from dflash_bench.runners.acceptance import tensorrt_llm
from dflash_bench.runners.acceptance.prometheus import Counters, Delta
from dflash_bench.runners.base import Request
from dflash_bench.runners.client.exchange import Wire
from dflash_bench.runners.dialects.base import Gained
from dflash_bench.runners.dialects.openai import OpenAI
from dflash_bench.spec import SamplingSpec


class TensorrtLlm(OpenAI):
    """trtllm-serve."""

    name = "tensorrt-llm"
    takes_ids = True

    def wire(
        self, request: Request, sampling: SamplingSpec, temperature: float, model: str
    ) -> Wire:
        """Write the request down, its prompt as ids."""
        wire = super().wire(request, sampling, temperature, model)
        ids = {"prompt": list(request.prompt), "add_special_tokens": False}
        return Wire(wire.id, wire.path, {**wire.body, **ids})

    def counters(self, metrics: str) -> Counters | None:
        """Read /metrics (JSON, which reading empties) or /prometheus/metrics."""
        return tensorrt_llm.counters(metrics)

    def gained(self, delta: Delta) -> Gained:
        """Say what was counted. Of a route that reading empties, the second reading is the visit."""
        config = delta.after.labels("trtllm_speculative_config_info")
        tokens = config.get("spec_num_tokens", "")
        told = {
            "spec_method": config.get("spec_method"),
            "num_speculative_tokens": int(tokens) if tokens.isdecimal() else None,
            "cached_prompt_tokens": delta.count("trtllm_prompt_cached_tokens_total"),
            "queue_s": delta.seconds("trtllm_request_queue_time_seconds_sum"),
        }
        return Gained(tensorrt_llm.between(delta), told)
