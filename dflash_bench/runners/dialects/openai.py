"""Any server with OpenAI's /v1/completions: text in, text out, and a count of tokens at the end.

Asked with everything that such servers share under the same name (top_k, min_p, repetition_penalty, ignore_eos beside
the standard's), because many take what is not said from the checkpoint's `generation_config.json`; a server that
refuses unknown settings says so, and a recipe of its own (`ask.body`) can leave them out. Chunks are counted where the
server has `continuous_usage_stats`; elsewhere only the times of the first and last one, and the sum, are known.
Acceptance is not told. `completion_tokens` is taken as it is: whether it counts EOS is the server's affair.
"""

from collections.abc import Sequence

from dflash_bench.runners.acceptance import prometheus
from dflash_bench.runners.acceptance.prometheus import Counters, Delta
from dflash_bench.runners.base import Request
from dflash_bench.runners.client.exchange import Wire
from dflash_bench.runners.dialects.base import Event, Gained, Reply, TellsDrafts
from dflash_bench.runners.dialects.completions import body, read, reply_of
from dflash_bench.spec import SamplingSpec


class OpenAI:
    """The plain format. Others that are it, but for a few fields, start from here."""

    name = "openai"
    takes_ids = False
    tells_drafts: TellsDrafts = None

    def wire(
        self, request: Request, sampling: SamplingSpec, temperature: float, model: str
    ) -> Wire:
        """Write the request down."""
        asked = body(request, sampling, temperature, model)
        asked["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        return Wire(request.id, "/v1/completions", asked)

    def reply(self, events: Sequence[Event]) -> Reply:
        """Read an answer."""
        return reply_of(read(events))

    def counters(self, metrics: str) -> Counters | None:
        """Read what /metrics says, if this server has it in Prometheus' format."""
        return prometheus.read(metrics)

    def gained(self, delta: Delta) -> Gained:
        """Return nothing: what a server of no known name counts is not known either."""
        return Gained()
