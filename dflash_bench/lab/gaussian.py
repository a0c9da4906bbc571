"""Train the lab's Gaussian drafter: the DFlash network, its slots noise in embedding space instead of masks.

What `engine.methods.dflash_noise` decodes with. Blocks are drawn as for DFlash (`lab.dflash`), each with
a time of its own: every other block is pure noise, since all that follows rests on the first step; the
rest have uniform times. The loss is the cross entropy of the slots through the target's head.

A network that only ever denoises true text learns to read the answer through the noise, and when
decoding there is no answer to read. So in every other batch the text beneath the noise is the network's
own first prediction: what it will meet.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import Qwen3ForCausalLM

from dflash_bench.engine.methods.dflash_config import DFlashConfig
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.engine.methods.dflash_noise import amplitudes, mix
from dflash_bench.lab import dflash
from dflash_bench.lab.dflash import Blocks
from dflash_bench.lab.outputs import Output
from dflash_bench.lab.training import Progress, Schedule, by_length, run

SEED = 24
STEPS = 9000
WARM_UP_STEPS = 200
LEARNING_RATE = 1e-3
NUM_ANCHORS = 8
BLOCK_SIZE = 8
DECAY = 4.0  # the DFlash paper's gamma for blocks of 8
SHARE_OF_PURE_NOISE = 0.5
CHECKPOINT_EVERY = 500


def config_for(target: Qwen3ForCausalLM, mask_token_id: int) -> DFlashConfig:
    """Return the shape of the lab's DFlash drafter, with blocks of 8 and noise as loud as the embedding."""
    scale = target.model.embed_tokens.weight.float().square().mean().sqrt().item()
    config = dflash.config_for(target, mask_token_id)
    return replace(config, block_size=BLOCK_SIZE, noise_scale=scale)


def draw_times(rows: int, num_anchors: int, width: int, generator: torch.Generator) -> Tensor:
    """Draw the time of each block, and lay it over the block's slots: [B, N*K], the anchors' 0."""
    uniform = torch.rand(rows, num_anchors, generator=generator)
    pure = torch.rand(rows, num_anchors, generator=generator) < SHARE_OF_PURE_NOISE
    times = uniform.masked_fill(pure, 1.0)[..., None].repeat(1, 1, width)
    times[..., 0] = 0.0
    return times.flatten(1)


def block_loss(
    model: DFlashModel,
    target: Qwen3ForCausalLM,
    blocks: Blocks,
    generator: torch.Generator,
    own_text: bool,
) -> Tensor:
    """Return the weighted mean cross entropy of the slots of one batch, each at its own position.

    `own_text`: beneath the noise is what the network itself says when it sees noise alone.
    """
    config, labels = model.config, blocks.labels
    width, (rows, slots) = config.block_size, labels.shape
    anchors = (torch.arange(slots) % width == 0).expand(rows, -1)
    # Beyond the text's end nothing is to be said: there lies the mask, and it has no label.
    clean = target.model.embed_tokens(torch.where(labels == -100, blocks.tokens, labels))
    times = draw_times(rows, slots // width, width, generator)
    if own_text:
        start = torch.where(anchors, 0.0, 1.0)
        with torch.no_grad():
            logits = target.lm_head(denoise(model, clean, start, blocks, generator))
            said = logits.softmax(-1) @ target.model.embed_tokens.weight
        clean = torch.where(anchors[..., None], clean, said)
    hidden = denoise(model, clean, times, blocks, generator)
    told = labels != -100
    number = (torch.arange(slots) % width).expand(rows, -1)[told]
    weights = torch.exp(-(number - 1) / DECAY)
    losses = F.cross_entropy(target.lm_head(hidden[told]), labels[told], reduction="none")
    return (losses * weights).sum() / weights.sum()


def denoise(
    model: DFlashModel, clean: Tensor, times: Tensor, blocks: Blocks, generator: torch.Generator
) -> Tensor:
    """Mix embeddings [B, Q, H] with fresh noise, as loud as `times` [B, Q] say, and run the network: [B, Q, H]."""
    levels = amplitudes("cosine", times)
    noise = torch.randn(clean.shape, generator=generator)
    noisy = mix(clean, noise, levels, model.config.noise_scale or 0.0)
    context = torch.arange(blocks.features.shape[1]).expand(len(clean), -1)
    embeddings = noisy + model.noise_level(levels)
    hidden: Tensor = model(embeddings, blocks.positions, blocks.features, context, blocks.mask)
    return hidden


def train(
    target: Qwen3ForCausalLM,
    outputs: Sequence[Output],
    mask_token_id: int,
    checkpoint: Path,
    *,
    steps: int = STEPS,
    progress: Progress,
) -> DFlashModel:
    """Train the drafter for a fixed number of steps, resuming from `checkpoint` when it is there."""
    target.requires_grad_(False)
    config = config_for(target, mask_token_id)
    examples = dflash.to_examples(target, outputs)
    progress(f"gaussian: {len(examples)} sequences, {sum(len(e.ids) for e in examples)} tokens")
    model = dflash.initialise(target, config, SEED)

    def loss_of(step: int, group: Sequence[dflash.Example]) -> Tensor:
        rng = random.Random(f"anchors/{SEED}/{step}")
        blocks = dflash.to_blocks(group, config, NUM_ANCHORS, rng)
        generator = torch.Generator().manual_seed(SEED * steps + step)
        return block_loss(model, target, blocks, generator, own_text=step % 2 == 1)

    schedule = Schedule("gaussian", steps, WARM_UP_STEPS, LEARNING_RATE, CHECKPOINT_EVERY)
    # The same groups, by the same rule, as for the masks, with a seed of its own.
    groups = by_length(examples, dflash.BATCH_SIZE, f"dflash/{SEED}")
    run(schedule, model, groups, loss_of, checkpoint, progress)
    return model
