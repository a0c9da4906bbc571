"""Where the time of a step goes, taken from outside: the loop and the methods know of no clock.

    clock  = Clock(target.device)
    events = generate(TimedTarget(target, clock), TimedDrafter(drafter, clock), ...)
    for timed in measured(events, clock): ...

The wrappers time the verbs; what is left of an event's wall time (choosing, accepting, bookkeeping)
is `other_s`. On a GPU work is queued and runs later, so the verbs are marked in the queue by CUDA
events, which neither wait nor drain it; only at the end of an event the clock waits, once.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from dflash_bench.engine.draft import Anchors, Draft
from dflash_bench.engine.loop import Event, Verifier
from dflash_bench.engine.methods.base import Committed, Drafter
from dflash_bench.engine.target import Verdict
from dflash_bench.errors import ConfigError

Phase = Literal["prefill_s", "draft_prefill_s", "draft_s", "verify_s", "commit_s"]


@dataclass(frozen=True)
class Times:
    """Seconds of one event: all of its wall time, the process's CPU time, and its phases."""

    wall_s: float
    cpu_s: float
    prefill_s: float = 0.0
    draft_prefill_s: float = 0.0
    draft_s: float = 0.0
    verify_s: float = 0.0
    commit_s: float = 0.0

    @property
    def other_s(self) -> float:
        """Wall time outside all phases: choosing, accepting, bookkeeping."""
        phases = self.prefill_s + self.draft_prefill_s + self.draft_s + self.verify_s
        return self.wall_s - phases - self.commit_s


@dataclass(frozen=True)
class Timed:
    """An event of the loop and what it took."""

    event: Event
    times: Times


class Clock:
    """Wall and CPU time since `start`, and of the phases marked meanwhile."""

    def __init__(
        self,
        device: torch.device | str = "cpu",
        wall: Callable[[], float] = time.perf_counter,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        """Measure work on `device`; `wall` and `cpu` return seconds."""
        self._device = torch.device(device)
        if (kind := self._device.type) not in ("cpu", "cuda"):
            raise ConfigError(f"device {kind} cannot be timed.", remedy="Use device cpu or cuda.")
        self._on_gpu = kind == "cuda"
        self._wall, self._cpu = wall, cpu
        self._phases: list[tuple[Phase, Any, Any]] = []
        self.start()

    def start(self) -> None:
        """Begin a new event."""
        self._phases.clear()
        self._started = (self._wall(), self._cpu())

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Count what runs inside to `name`."""
        begin = self._mark()
        yield
        self._phases.append((name, begin, self._mark()))

    def read(self) -> Times:
        """Return the times since `start`, once all work of the device is done."""
        if self._on_gpu:
            torch.cuda.synchronize(self._device)
        wall, cpu = self._wall() - self._started[0], self._cpu() - self._started[1]
        phases: dict[str, float] = {}
        for name, begin, end in self._phases:
            phases[name] = phases.get(name, 0.0) + self._between(begin, end)
        return Times(wall, cpu, **phases)

    def _mark(self) -> Any:
        if not self._on_gpu:
            return self._wall()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event

    def _between(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end)) / 1e3 if self._on_gpu else float(end - begin)


def measured(events: Iterable[Event], clock: Clock) -> Iterator[Timed]:
    """Yield each event with its times; what the caller does between two events is not counted."""
    clock.start()
    for event in events:
        yield Timed(event, clock.read())
        clock.start()


class TimedTarget:
    """A target whose prefill, verification and commit are timed."""

    def __init__(self, target: Verifier, clock: Clock) -> None:
        self._target, self._clock = target, clock
        self.device, self.max_positions = target.device, target.max_positions
        self.reserve, self.move_row = target.reserve, target.move_row

    def prefill(self, row: int, prompt: Sequence[int]) -> Verdict:
        with self._clock.phase("prefill_s"):
            return self._target.prefill(row, prompt)

    def verify_block(
        self, tokens: Tensor, lengths: Sequence[int], parents: Tensor | None = None
    ) -> Verdict:
        with self._clock.phase("verify_s"):
            return self._target.verify_block(tokens, lengths, parents)

    def commit(self, nodes: Tensor, lengths: Sequence[int]) -> None:
        with self._clock.phase("commit_s"):
            self._target.commit(nodes, lengths)


class TimedDrafter:
    """A drafter whose verbs are timed."""

    def __init__(self, drafter: Drafter, clock: Clock) -> None:
        self._drafter, self._clock = drafter, clock
        self.name, self.block_size, self.taps = drafter.name, drafter.block_size, drafter.taps
        self.reserve, self.move_row = drafter.reserve, drafter.move_row

    def admit(self, row: int, tokens: Sequence[int], features: Tensor) -> None:
        with self._clock.phase("draft_prefill_s"):
            self._drafter.admit(row, tokens, features)

    def draft_block(self, anchors: Anchors) -> Draft:
        with self._clock.phase("draft_s"):
            return self._drafter.draft_block(anchors)

    def commit(self, committed: Committed) -> None:
        with self._clock.phase("commit_s"):
            self._drafter.commit(committed)
