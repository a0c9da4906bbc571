"""Train the lab's Medusa heads: four guesses ahead from the frozen target's final hidden state.

The recipe is Medusa-1's (arXiv:2401.10774, section 2.2.1): the target stays as it is; the heads start
as its output head; cross entropy of head i at the token 2+i places on, head after head weighted 0.8
less. Hidden states are computed once, since the target does not move, and a training batch is any
positions of any outputs: a head sees nothing but its one hidden state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import Qwen3ForCausalLM

from dflash_bench.engine.methods.medusa_model import MedusaConfig, MedusaHeads
from dflash_bench.lab.outputs import Output
from dflash_bench.lab.training import Progress, Schedule, run

SEED = 23
NUM_HEADS = 4
NUM_LAYERS = 1
STEPS = 2400
WARM_UP_STEPS = 50
LEARNING_RATE = 2e-3
BATCH_SIZE = 1024  # positions
WEIGHT = 0.8  # of each head, relative to the one before it
CHECKPOINT_EVERY = 200
FORWARD_ROWS = 16


class Examples(NamedTuple):
    """Positions p of all outputs.

    hidden  [P, H] bf16, the target's final normed hidden state at p
    labels  [P, heads] int64, tokens p+2, p+3, ..; -100 beyond a sequence's end
    """

    hidden: Tensor
    labels: Tensor


@torch.no_grad()
def initialise(target: Qwen3ForCausalLM) -> MedusaHeads:
    """Start as the target's output head, which says the next token: a fair first guess of later ones."""
    shape: Any = target.config
    heads = MedusaHeads(MedusaConfig(shape.hidden_size, shape.vocab_size, NUM_HEADS, NUM_LAYERS))
    for head in heads:
        head[-1].weight.copy_(target.lm_head.weight)  # type: ignore[index]
    return heads


@torch.no_grad()
def to_examples(target: Qwen3ForCausalLM, outputs: Sequence[Output]) -> Examples:
    """Run the target once over every sequence and keep what its heads would be asked.

    That begins at the prompt's last token, whose hidden state chose the output's first one, and ends
    where no label is left.
    """
    hidden, labels = [], []
    order = sorted(outputs, key=lambda output: len(output.prompt) + len(output.output))
    for i in range(0, len(order), FORWARD_ROWS):
        group = order[i : i + FORWARD_ROWS]
        sequences = [torch.tensor(output.prompt + output.output) for output in group]
        # Padding on the right is after every token that counts, so causal attention needs no mask.
        ids = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
        states = target.model(ids, use_cache=False).last_hidden_state  # [B, T, H]
        for output, sequence, row in zip(group, sequences, states, strict=True):
            start, stop = len(output.prompt) - 1, len(sequence) - 2
            if stop <= start:
                continue
            hidden.append(row[start:stop].bfloat16())
            padded = F.pad(sequence, (0, NUM_HEADS), value=-100)
            ahead = torch.arange(2, 2 + NUM_HEADS)
            labels.append(padded[torch.arange(start, stop)[:, None] + ahead])
    return Examples(torch.cat(hidden), torch.cat(labels))


def batches(num_positions: int, seed: int) -> Iterator[Tensor]:
    """Yield index batches [BATCH_SIZE] for ever, every position once before any comes again."""
    random = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(num_positions, generator=random)
        yield from torch.split(order, BATCH_SIZE)


def heads_loss(heads: MedusaHeads, hidden: Tensor, labels: Tensor) -> Tensor:
    """Return the weighted sum of the heads' mean cross entropies, in nats."""
    losses = F.cross_entropy(heads(hidden).transpose(1, 2), labels, reduction="none")  # [P, heads]
    counts = (labels != -100).sum(0).clamp(min=1)
    weights = WEIGHT ** torch.arange(labels.shape[1])
    return (losses.sum(0) / counts * weights).sum()


def train(
    target: Qwen3ForCausalLM,
    outputs: Sequence[Output],
    checkpoint: Path,
    *,
    steps: int = STEPS,
    progress: Progress,
) -> MedusaHeads:
    """Train the heads for a fixed number of steps, resuming from `checkpoint` when it is there."""
    target.requires_grad_(False)
    examples = to_examples(target, outputs)
    progress(f"medusa: {len(examples.hidden)} positions")
    heads = initialise(target)

    def loss_of(step: int, chosen: Tensor) -> Tensor:
        return heads_loss(heads, examples.hidden[chosen].float(), examples.labels[chosen])

    schedule = Schedule("medusa", steps, WARM_UP_STEPS, LEARNING_RATE, CHECKPOINT_EVERY)
    source = batches(len(examples.hidden), SEED)
    run(schedule, heads, source, loss_of, checkpoint, progress)
    return heads
