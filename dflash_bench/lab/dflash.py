"""Train the lab's DFlash drafter: two layers that fill a block of 16 from three taps of the frozen target.

The recipe is the paper's (arXiv:2602.06036, section 4.2) made small: random anchors in the target's
own outputs; every anchor starts a block [token, MASK x 15] that sees the features strictly before it
and itself; cross entropy at the masks, weighted exp(-(k-1)/7). What is ours is the start: layers copied
from the target's, `fc` the mean of its taps.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import Qwen3ForCausalLM

from dflash_bench.engine.methods.dflash_config import DFlashConfig
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.lab.outputs import Output
from dflash_bench.lab.training import Progress, Schedule, by_length, run

SEED = 22
STEPS = 14000
WARM_UP_STEPS = 200
LEARNING_RATE = 1e-3
BATCH_SIZE = 8
NUM_ANCHORS = 8
BLOCK_SIZE = 16
DECAY = 7.0  # the paper's gamma for blocks of 16
TAPS = (1, 3, 5)
COPIED_LAYERS = (5, 7)
CHECKPOINT_EVERY = 500


class Example(NamedTuple):
    """One sequence: ids [T], where its output starts, and the target's features [T, m*H] in bf16."""

    ids: Tensor
    start: int
    features: Tensor


class Blocks(NamedTuple):
    """One batch for the drafter: N anchors per row, blocks of K side by side (Q = N*K), context of S tokens.

    tokens, positions, labels  [B, Q] int64; a label of -100 has no weight
    features                   [B, S, m*H]
    mask                       [B, 1, Q, S+Q] bool, true where a query sees a key
    """

    tokens: Tensor
    positions: Tensor
    labels: Tensor
    features: Tensor
    mask: Tensor


def config_for(target: Qwen3ForCausalLM, mask_token_id: int) -> DFlashConfig:
    """Return the drafter's shape: the target's width, two layers, block 16."""
    shape: Any = target.config  # its optional fields are all set in a loaded model
    return DFlashConfig(
        hidden_size=shape.hidden_size, intermediate_size=shape.intermediate_size,
        num_hidden_layers=len(COPIED_LAYERS), num_attention_heads=shape.num_attention_heads,
        num_key_value_heads=shape.num_key_value_heads, head_dim=shape.head_dim, vocab_size=shape.vocab_size,
        rms_norm_eps=shape.rms_norm_eps, rope_theta=shape.rope_parameters["rope_theta"], block_size=BLOCK_SIZE,
        mask_token_id=mask_token_id, target_layer_ids=TAPS, num_target_layers=shape.num_hidden_layers,
    )  # fmt: skip


@torch.no_grad()
def initialise(target: Qwen3ForCausalLM, config: DFlashConfig, seed: int = SEED) -> DFlashModel:
    """Start from the target: late layers and final norm copied, `fc` the mean of the taps plus noise.

    A prototype that started from random weights had about two tokens accepted in the same time.
    """
    torch.manual_seed(seed)
    model = DFlashModel(config)
    source = target.model.state_dict()
    for i, layer in enumerate(COPIED_LAYERS):
        prefix = f"layers.{layer}."
        copied = {k.removeprefix(prefix): v for k, v in source.items() if k.startswith(prefix)}
        model.layers[i].load_state_dict(copied)
    model.norm.weight.copy_(source["norm.weight"])
    taps = len(config.target_layer_ids)
    mean = torch.eye(config.hidden_size).repeat(1, taps) / taps  # [H, m*H]
    model.fc.weight.copy_(mean + 0.02 * torch.randn_like(mean))
    return model


@torch.inference_mode()
def to_examples(target: Qwen3ForCausalLM, outputs: Sequence[Output]) -> list[Example]:
    """Run the target once over every sequence and keep the taps' outputs in bf16."""
    examples = []
    for output in outputs:
        ids = torch.tensor(output.prompt + output.output)
        hidden = target.model(ids[None], output_hidden_states=True, use_cache=False).hidden_states
        # hidden_states[0] are the embeddings: the output of layer i is number i + 1.
        features = torch.cat([hidden[i + 1][0] for i in TAPS], dim=-1).bfloat16()  # [T, m*H]
        if len(output.output) >= 2:  # an anchor needs a token after it
            examples.append(Example(ids, len(output.prompt), features))
    return examples


def to_blocks(
    group: Sequence[Example], config: DFlashConfig, num_anchors: int, rng: random.Random
) -> Blocks:
    """Draw anchors in the outputs and lay their blocks side by side."""
    width, longest = config.block_size, max(len(e.ids) for e in group)
    anchors = torch.tensor([
        rng.choices(range(e.start, len(e.ids) - 1), k=num_anchors) for e in group
    ])  # [B, N]  # fmt: skip
    ids = torch.full((len(group), longest + width), -100)
    features = torch.zeros(len(group), longest, group[0].features.shape[1])
    for row, example in enumerate(group):
        ids[row, : len(example.ids)] = example.ids
        features[row, : len(example.ids)] = example.features
    positions = (anchors[..., None] + torch.arange(width)).flatten(1)  # [B, Q]
    labels = ids.gather(1, positions)
    is_anchor = torch.arange(positions.shape[1]) % width == 0  # [Q]
    tokens = torch.where(is_anchor, labels, config.mask_token_id)
    owner = torch.arange(num_anchors).repeat_interleave(width)  # [Q] whose block a slot is in
    sees_context = torch.arange(longest) < anchors[:, owner, None]  # [B, Q, S] strictly before
    sees_block = (owner[:, None] == owner).expand(len(group), -1, -1)  # [B, Q, Q]
    mask = torch.cat([sees_context, sees_block], dim=-1)[:, None]
    return Blocks(tokens, positions, labels.masked_fill(is_anchor, -100), features, mask)


def block_loss(model: DFlashModel, target: Qwen3ForCausalLM, blocks: Blocks) -> Tensor:
    """Return the weighted mean cross entropy of the masked slots, each at its own position."""
    width = model.config.block_size
    context = torch.arange(blocks.features.shape[1]).expand(len(blocks.tokens), -1)
    # In fp32: at this size autocast's casts cost more than its products save (0.10 against 0.14 s a step).
    hidden = model(
        target.model.embed_tokens(blocks.tokens),
        blocks.positions,
        blocks.features,
        context,
        blocks.mask,
    )  # [B, Q, H]
    slots = blocks.labels != -100
    logits = target.lm_head(hidden[slots])  # [L, V]
    number = (torch.arange(blocks.labels.shape[1]) % width).expand_as(blocks.labels)[slots]
    weights = torch.exp(-(number - 1) / DECAY)
    losses = F.cross_entropy(logits, blocks.labels[slots], reduction="none")
    return (losses * weights).sum() / weights.sum()


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
    examples = to_examples(target, outputs)
    progress(f"dflash: {len(examples)} sequences, {sum(len(e.ids) for e in examples)} tokens")
    model = initialise(target, config)

    def loss_of(step: int, group: Sequence[Example]) -> Tensor:
        rng = random.Random(f"anchors/{SEED}/{step}")
        return block_loss(model, target, to_blocks(group, config, NUM_ANCHORS, rng))

    schedule = Schedule("dflash", steps, WARM_UP_STEPS, LEARNING_RATE, CHECKPOINT_EVERY)
    groups = by_length(examples, BATCH_SIZE, f"dflash/{SEED}")
    run(schedule, model, groups, loss_of, checkpoint, progress)
    return model
