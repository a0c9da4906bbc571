"""Train the lab's draft model: a small Qwen3 of its own, which imitates what the target says.

Nothing of the target is in it but its tokenizer and its outputs: two layers of width 64 beside eight
of 128. It learns the outputs as the target learnt its corpus, packed to windows, some of them long;
since half of the outputs were sampled, their cross entropy is the divergence from the target's law up
to a constant.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from transformers import Qwen3Config, Qwen3ForCausalLM

from dflash_bench.lab.outputs import Output
from dflash_bench.lab.target import config, new_model, weighted_loss
from dflash_bench.lab.training import Progress, Schedule, run
from dflash_bench.lab.windows import (
    LONG,
    LONG_ROWS,
    LONG_SHARE,
    PROMPT_WEIGHT,
    SHORT,
    SHORT_ROWS,
    Batch,
    Document,
    pack,
    stack,
)

SEED = 24
STEPS = 2000
WARM_UP_STEPS = 100
LEARNING_RATE = 5e-3
LAYERS, HIDDEN_SIZE = 2, 64
CHECKPOINT_EVERY = 200


def shape(vocab_size: int) -> Qwen3Config:
    """Return the draft model's shape: the target's in small, with 2 query heads and 1 of keys."""
    return config(vocab_size, layers=LAYERS, hidden=HIDDEN_SIZE)


def to_document(output: Output) -> Document:
    """Lay a prompt and the target's answer end to end; the prompt's tokens weigh less."""
    weights = [PROMPT_WEIGHT] * len(output.prompt) + [1.0] * len(output.output)
    return Document(output.prompt + output.output, weights)


def stream(outputs: Sequence[Output], name: str) -> Iterator[Document]:
    """Yield the outputs for ever, each once before any comes again, in a seeded order."""
    rng = random.Random(f"draft_model/{SEED}/{name}")
    order = list(outputs)
    while True:
        rng.shuffle(order)
        yield from map(to_document, order)


def batches(outputs: Sequence[Output]) -> Iterator[Batch]:
    """Yield the training batches for ever, always the same; some have long windows."""
    kind = random.Random(f"draft_model/{SEED}/kind")
    short, long = pack(stream(outputs, "short"), SHORT), pack(stream(outputs, "long"), LONG)
    while True:
        if kind.random() < LONG_SHARE:
            yield stack([next(long) for _ in range(LONG_ROWS)])
        else:
            yield stack([next(short) for _ in range(SHORT_ROWS)])


def train(
    vocab_size: int,
    outputs: Sequence[Output],
    checkpoint: Path,
    *,
    steps: int = STEPS,
    progress: Progress,
) -> Qwen3ForCausalLM:
    """Train the draft model for a fixed number of steps, resuming from `checkpoint` when it is there."""
    model = new_model(shape(vocab_size), SEED)
    schedule = Schedule("draft_model", steps, WARM_UP_STEPS, LEARNING_RATE, CHECKPOINT_EVERY, 50)
    source = batches(outputs)
    run(schedule, model, source, lambda _, batch: weighted_loss(model, batch), checkpoint, progress)
    return model
