"""What a runner is: it opens an arm, is asked requests, and tells what each gave.

runner.refusal(arm, cell)          why it cannot be done, or None; needs nothing loaded
runner.start()                     loads or starts what all arms share; check of models and settings
runner.tokenizer                   renders and encodes prompts, in one place for all arms
session = runner.open(arm)         the arm, ready to be asked
session.run(requests, ...)         yields one Answer per request, as they finish
session.totals()                   what the finished run took as a whole
session.close(); runner.stop()
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dflash_bench.plan import Cell, PlannedArm
from dflash_bench.records.schema import Answer, Totals
from dflash_bench.workloads.prompts import Tokenizer


@dataclass(frozen=True)
class Request:
    """One prompt to generate from. `key` numbers its random noise: the same in every arm, round and batch."""

    id: str
    prompt: tuple[int, ...]
    key: int
    max_new_tokens: int
    stop: tuple[str, ...] = ()


class Session(Protocol):
    """An arm that is ready to be asked."""

    def run(
        self, requests: Sequence[Request], batch_size: int, temperature: float
    ) -> Iterator[Answer]:
        """Generate for all `requests`, `batch_size` at a time, slots refilled at once; yield answers as they end."""

    def totals(self) -> Totals:
        """Return the totals of the last finished `run`."""

    def close(self) -> None:
        """Give back what the arm holds."""


class Runner(Protocol):
    """A way to generate."""

    name: str

    def refusal(self, arm: PlannedArm, cell: Cell) -> str | None:
        """Say why (arm, cell) cannot be done, or None. Needs nothing loaded, so that a dry run can ask."""

    def start(self) -> None:
        """Load or start what all arms share."""

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

    def open(self, arm: PlannedArm) -> Session:
        """Make `arm` ready."""

    def stop(self) -> None:
        """Give back everything."""
