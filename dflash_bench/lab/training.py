"""The loop that trains every model of the lab: so many steps, kept every so often, the same again after a kill.

AdamW, a linear warm-up and a cosine to zero, gradients clipped at 1. What differs between the models is
where their batches come from and what their loss is.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

Progress = Callable[[str], None]
BatchT = TypeVar("BatchT")


class Sequenced(Protocol):
    """A training example that has token ids [T]."""

    @property
    def ids(self) -> Tensor: ...


ExampleT = TypeVar("ExampleT", bound=Sequenced)


class Schedule(NamedTuple):
    """How long a training is, and how often it is kept and told; `smoothing` of the loss that is told."""

    name: str
    steps: int
    warm_up: int
    learning_rate: float
    checkpoint_every: int
    report_every: int = 100
    smoothing: float = 0.98


def run(
    schedule: Schedule,
    model: torch.nn.Module,
    batches: Iterable[BatchT],
    loss_of: Callable[[int, BatchT], Tensor],
    checkpoint: Path,
    progress: Progress,
) -> None:
    """Train `model` in place on `loss_of(step, batch)`, resuming from `checkpoint` when it is there.

    `batches` are those of step 0 on, always the same: what was done before a kill is passed over.
    """
    steps = schedule.steps
    opt = optimiser(model, schedule.learning_rate)
    start = resume(checkpoint, model, opt)
    began, recent = time.perf_counter(), math.nan
    for step, batch in enumerate(itertools.islice(batches, start, steps), start):
        rate = schedule.learning_rate * cosine(step, steps=steps, warm_up=schedule.warm_up)
        loss = train_step(model, opt, loss_of(step, batch), rate)
        kept = schedule.smoothing
        recent = loss if math.isnan(recent) else kept * recent + (1 - kept) * loss
        if step % schedule.report_every == 0:
            seconds = time.perf_counter() - began
            progress(f"{schedule.name} step {step}/{steps} loss {recent:.3f} ({seconds:.0f} s)")
        if (step + 1) % schedule.checkpoint_every == 0 or step + 1 == steps:
            keep(checkpoint, model, opt, step + 1)


def by_length(examples: Sequence[ExampleT], batch_size: int, seed: str) -> Iterator[list[ExampleT]]:
    """Yield batches of similar length for ever (short padding), in a seeded order."""
    rng = random.Random(seed)
    while True:
        order = sorted(examples, key=lambda e: len(e.ids) + rng.uniform(0, 32))
        groups = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
        rng.shuffle(groups)
        yield from groups


def cosine(step: int, *, steps: int, warm_up: int) -> float:
    """Return the learning rate's factor: linear warm-up, then a cosine to zero."""
    if step < warm_up:
        return (step + 1) / warm_up
    return 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up)))


def optimiser(model: torch.nn.Module, learning_rate: float) -> torch.optim.AdamW:
    """AdamW with decay on matrices only; norms are left alone."""
    matrices = [p for p in model.parameters() if p.requires_grad and p.ndim > 1]
    vectors = [p for p in model.parameters() if p.requires_grad and p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.95), fused=True)


def train_step(
    model: torch.nn.Module, opt: torch.optim.AdamW, loss: Tensor, learning_rate: float
) -> float:
    """Take one clipped step down `loss` and return its value."""
    for group in opt.param_groups:
        group["lr"] = learning_rate
    opt.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    return loss.item()


def keep(checkpoint: Path, model: torch.nn.Module, opt: torch.optim.AdamW, step: int) -> None:
    """Write the training state in one move, so that a kill never leaves half a file."""
    part = checkpoint.with_suffix(".part")
    torch.save({"model": model.state_dict(), "optimiser": opt.state_dict(), "step": step}, part)
    part.replace(checkpoint)


def resume(checkpoint: Path, model: torch.nn.Module, opt: torch.optim.AdamW) -> int:
    """Load the training state if there is one; return the number of steps already done."""
    if not checkpoint.is_file():
        return 0
    state = torch.load(checkpoint, weights_only=True)
    model.load_state_dict(state["model"])
    opt.load_state_dict(state["optimiser"])
    return int(state["step"])
