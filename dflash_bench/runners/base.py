"""What a runner is: it opens an arm, is asked requests, and tells what each gave.

runner.refusal(arm, cell)          why it cannot be done, or None; needs nothing loaded
runner.start()                     loads what all arms share; check of models, settings and environments
runner.tokenizer                   renders and encodes prompts, in one place for all arms
session = runner.open(arm, ...)    the arm, ready to be asked: loaded here, or a server that was started for it
session.run(requests, load)        yields one Answer per request, as they finish
session.totals()                   what the finished run took as a whole
session.close(); runner.stop()
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dflash_bench.plan import Cell, Nesting, PlannedArm
from dflash_bench.records.schema import Answer, Totals
from dflash_bench.workloads.prompts import Tokenizer

STATE = {
    "version": "of the backend",
    "flags": "the command that started it, resolved",
    "config": "what it says of its own settings",
    "model": "the name under which it is asked for the target",
    "max_requests": "the most requests that it runs at once",
    "max_batched_tokens": "the most tokens of one pass",
    "graph_mode": "how passes are captured and replayed",
    "async_scheduling": "whether the next step is scheduled while one runs",
    "kv_capacity_tokens": "tokens that its cache holds",
    "ended_requests": "requests that ended on it in the visit, by its own count",
    "preemptions": "requests that lost their place in the visit",
    "queue_s": "seconds that requests waited inside it, summed over the visit",
    "cached_prompt_tokens": "prompt tokens that it did not compute in the visit, kept from before",
    "prefix_cache": "whether it keeps prompts",
    "spec_method": "the method that it says it drafts with",
    "num_speculative_tokens": "drafts of a step, as it says",
    "log": "the name of its log, in the results folder's logs/",
    "defects": "sentences: what this build is known to do wrong with this arm",
    "invalid": "sentences: what makes the visit no measurement of its arm",
    "complaints": "sentences: counters that other traffic moved or that were reset, and the like",
}
"""Keys of `Totals.backend`, once per visit; one that a backend cannot tell is missing."""


@dataclass(frozen=True)
class Request:
    """One prompt to generate from: token ids, and the `text` that they are of, for backends that take only text.

    `key` numbers its random noise: the same in every arm, round and batch.
    """

    id: str
    prompt: tuple[int, ...]
    key: int
    max_new_tokens: int
    stop: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class Load:
    """How the requests of a visit are sent.

    batch_size      closed loop: requests in flight, slots refilled at once; open loop: the most in flight
    request_rate    requests per second of an open loop; None is the closed loop
    burstiness      shape of the gamma-distributed gaps of an open loop, as vLLM names it; 1 is Poisson
    seed            of these gaps: every arm of a round gets the same arrivals
    """

    batch_size: int
    temperature: float = 0.0
    request_rate: float | None = None
    burstiness: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Opening:
    """What an arm is opened for: the most that its cells will ask of it.

    batch_size      requests in flight
    positions       tokens of the longest prompt with its answer; 0 is not known
    quantization    of the target's weights: None, int8 or int4
    log             where a process of its own writes its log
    """

    batch_size: int = 1
    positions: int = 0
    quantization: str | None = None
    log: Path | None = None


class Session(Protocol):
    """An arm that is ready to be asked."""

    def run(self, requests: Sequence[Request], load: Load) -> Iterator[Answer]:
        """Generate for all `requests`, sent as `load` says; yield answers as they end."""

    def totals(self) -> Totals:
        """Return the totals of the last finished `run`."""

    def close(self) -> None:
        """Give back what the arm holds."""


class Runner(Protocol):
    """A way to generate.

    `nesting` is `cell` where arms stay open side by side, `start` where each is started for its turn and serves all
    cells of a round. `couples_noise`: under sampling too every arm draws a token by the noise of its position, so that
    texts and not only laws must be the same.
    """

    name: str
    nesting: Nesting
    couples_noise: bool

    def refusal(self, arm: PlannedArm, cell: Cell) -> str | None:
        """Say why (arm, cell) cannot be done, or None. Needs nothing loaded, so that a dry run can ask."""

    def start(self) -> None:
        """Load what all arms share, and refuse what cannot run."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The target's tokenizer, once started."""

    @property
    def max_positions(self) -> int | None:
        """The longest sequence that the target takes, in tokens, once started."""

    def models(self) -> dict[str, dict[str, Any]]:
        """Return what is loaded, by role: path or id, and sha256 of its files, for the manifest."""

    def facts(self) -> dict[str, Any]:
        """Return the backend's versions and resolved settings, for the manifest."""

    def open(self, arm: PlannedArm, opening: Opening) -> Session:
        """Make `arm` ready."""

    def stop(self) -> None:
        """Give back everything."""
