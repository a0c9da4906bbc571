"""Where the time of our steps goes: draft, verify, commit, and everything else."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.engine_contests import BLOCKS, SLOTS, label, settings_of
from benchmarks.engine_models import Models
from dflash_bench.engine.clock import Clock, TimedDrafter, TimedTarget, measured
from dflash_bench.engine.loop import Step, generate
from dflash_bench.engine.methods.base import Drafter
from dflash_bench.engine.registry import build
from dflash_bench.engine.sampling import Sampling
from dflash_bench.engine.target import Target

METHODS = (
    *(("ar", 1), *(("dflash", block) for block in BLOCKS)),
    *(("draft_model", 5), ("ngram", 8)),
)


@dataclass(frozen=True)
class Split:
    """Mean milliseconds of a step by phase; `other` is choosing, accepting and bookkeeping."""

    model: str
    what: str
    batch_size: int
    steps: int
    draft_ms: float
    verify_ms: float
    commit_ms: float
    other_ms: float
    other_share: float


def splits(models: Models, target: Target, clock: Callable[[], float]) -> Iterator[Split]:
    """Split the steps of every method that can run, alone and with all slots busy."""
    for method, block in METHODS:
        settings = settings_of(models, method, block)
        if not isinstance(settings, str):
            drafter = build(method, target, settings)
            for batch_size in (1, SLOTS):
                yield split(models, target, drafter, label(method, block), batch_size, clock)


def split(
    models: Models,
    target: Target,
    drafter: Drafter,
    what: str,
    batch_size: int,
    seconds: Callable[[], float],
) -> Split:
    """Time the phases of one run's steps, after a run that warms up."""
    asked = models.requests if batch_size == 1 else models.crowd
    for _ in range(2):
        clock = Clock(target.device, wall=seconds)
        events = generate(
            TimedTarget(target, clock),
            TimedDrafter(drafter, clock),
            asked,
            batch_size=batch_size,
            sampling=Sampling(),
        )
        times = [each.times for each in measured(events, clock) if isinstance(each.event, Step)]
    wall = sum(each.wall_s for each in times)
    other = sum(each.other_s for each in times)
    mean = 1e3 / len(times)
    return Split(
        model=models.name,
        what=what,
        batch_size=batch_size,
        steps=len(times),
        draft_ms=mean * sum(each.draft_s for each in times),
        verify_ms=mean * sum(each.verify_s for each in times),
        commit_ms=mean * sum(each.commit_s for each in times),
        other_ms=mean * other,
        other_share=other / wall,
    )
