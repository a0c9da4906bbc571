"""A dialect: how one kind of server is asked, and what its answers mean.

body     every setting of sampling is written out, so that no server's default (or `generation_config.json`) decides
reply    what arrived, already stamped, becomes tokens, text, their times, and the canonical acceptance record
counters a server-wide snapshot, and `gained`: what two of them say about the visit between

Output ids and counts INCLUDE the token that ended the text, EOS or another, as in the reference engine; each dialect
says where its server leaves it out.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from dflash_bench.records.schema import Acceptance, Steps
from dflash_bench.runners.acceptance.prometheus import Counters, Delta
from dflash_bench.runners.base import Request
from dflash_bench.runners.client.exchange import Wire
from dflash_bench.spec import SamplingSpec

FinishReason = Literal["eos", "length", "stop"]
TellsDrafts = Literal["answers", "counters"] | None
Event = tuple[float, bytes]
"""When it arrived, seconds of one performance counter, and its payload."""


@dataclass(frozen=True)
class Reply:
    """What one answer says; None is "not told".

    `chunks`: arrival, and tokens, of each event that bore tokens; a first token may have empty text. Empty where the
    answer was no stream, or where events do not say how many tokens they bear. `first_s`: arrival of the first event
    that bore output, known in any stream; `last_s`: of the last one. `queue_s`: seconds that the server says it waited.
    """

    ids: tuple[int, ...] | None = None
    text: str | None = None
    output_tokens: int | None = None
    finish_reason: FinishReason | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    chunks: tuple[tuple[float, int], ...] = ()
    first_s: float | None = None
    last_s: float | None = None
    acceptance: Acceptance | None = None
    steps: Steps | None = None
    queue_s: float | None = None
    error: str | None = None


@dataclass(frozen=True)
class Gained:
    """What counters tell of a visit: its acceptance, keys of `Totals.backend` (None: not told), doubts (sentences)."""

    acceptance: Acceptance | None = None
    told: Mapping[str, Any] = field(default_factory=dict)
    doubts: Sequence[str] = ()

    @property
    def backend(self) -> dict[str, Any]:
        """The keys that were told."""
        return {key: value for key, value in self.told.items() if value is not None}


class Dialect(Protocol):
    """One kind of server's way to be asked. `takes_ids`: prompts go out as token ids, else as text.

    `tells_drafts`: where such a server shows for certain that it drafts, so that silence there means that it does not:
    in each answer, or in the counters of `gained` if these are served. None: its silence says nothing.
    """

    name: str
    takes_ids: bool
    tells_drafts: TellsDrafts

    def wire(
        self, request: Request, sampling: SamplingSpec, temperature: float, model: str
    ) -> Wire:
        """Write `request` down, as a stream, with counts of tokens on."""

    def reply(self, events: Sequence[Event]) -> Reply:
        """Read an answer; one that cannot be read is a Reply with an `error`, a sentence."""

    def counters(self, metrics: str) -> Counters | None:
        """Read a snapshot of the server's counters; None if this text holds none."""

    def gained(self, delta: Delta) -> Gained:
        """Say what the counters gained between two snapshots of a server that did not restart in between."""


def gained_between(dialect: Dialect, before: Counters, after: Counters) -> tuple[Gained, list[str]]:
    """Return what the counters gained, and sentences on a restart in between, after which they say nothing."""
    delta = Delta(before, after)
    restarts = delta.restarts()
    return Gained() if restarts else dialect.gained(delta), restarts


def seed_of(sampling: SamplingSpec, request: Request) -> int:
    """Return the seed that goes out with `request`: 31 bits of a hash of (sampling seed, request key).

    Neighbouring seeds would be as good; a hash keeps (seed 0, key 1) and (seed 1, key 0) apart. 31 bits are what
    every server takes (llama.cpp parses a signed 32-bit number).
    """
    digest = hashlib.sha256(f"{sampling.seed}/{request.key}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
