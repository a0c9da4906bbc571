"""The lab's target: an eight-layer Qwen3 of 1.7 M parameters, trained from scratch on one core.

Depth makes a speedup real: a draft of two layers costs a quarter of a step of eight. Master weights are
fp32 with bf16 autocast; what is shipped is rounded to bf16 once, at the end, and run in fp32 from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch.nn import functional as F
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from dflash_bench.lab.corpus.row import Row
from dflash_bench.lab.tokenizer import END_OF_TEXT, MAX_POSITIONS, TURN_END, VOCAB_SIZE, special_id
from dflash_bench.lab.tokenizer import save as save_tokenizer
from dflash_bench.lab.training import Progress, Schedule, run
from dflash_bench.lab.windows import Batch, batches, to_document

SEED = 20
STEPS = 1600
WARM_UP_STEPS = 100
LEARNING_RATE = 3e-3
CHECKPOINT_EVERY = 150


def config(vocab_size: int = VOCAB_SIZE, *, layers: int = 8, hidden: int = 128) -> Qwen3Config:
    """Return the target's shape; the special tokens have the ids 0 to 3."""
    return Qwen3Config(
        vocab_size=vocab_size, hidden_size=hidden, num_hidden_layers=layers, intermediate_size=3 * hidden,
        num_attention_heads=hidden // 32, num_key_value_heads=hidden // 64, head_dim=32, tie_word_embeddings=True,
        max_position_embeddings=MAX_POSITIONS, bos_token_id=None, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip


def new_model(shape: Qwen3Config, seed: int = SEED) -> Qwen3ForCausalLM:
    """Build a target with seeded random weights, for training: sdpa saves the [T, T] scores in memory."""
    torch.manual_seed(seed)
    shape._attn_implementation = "sdpa"
    return Qwen3ForCausalLM(shape)


def weighted_loss(model: Qwen3ForCausalLM, batch: Batch) -> torch.Tensor:
    """Return the weighted mean cross entropy of each next token, in nats."""
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(input_ids=batch.ids, use_cache=False).logits[:, :-1]  # [B, T-1, V]
    losses = F.cross_entropy(
        logits.flatten(0, 1).float(), batch.ids[:, 1:].flatten(), reduction="none"
    )
    weights = batch.weights[:, 1:].flatten()
    return (losses * weights).sum() / weights.sum()


def train(
    tokenizer: PreTrainedTokenizerFast,
    rows: dict[str, list[Row]],
    checkpoint: Path,
    *,
    steps: int = STEPS,
    progress: Progress,
) -> Qwen3ForCausalLM:
    """Train the target for a fixed number of steps, resuming from `checkpoint` when it is there."""
    model = new_model(config(len(tokenizer)))
    schedule = Schedule(
        "target",
        steps,
        WARM_UP_STEPS,
        LEARNING_RATE,
        CHECKPOINT_EVERY,
        report_every=25,
        smoothing=0,
    )
    source = batches(tokenizer, rows, SEED)
    run(schedule, model, source, lambda _, batch: weighted_loss(model, batch), checkpoint, progress)
    return model


def save(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write the Hugging Face folder, weights rounded to bf16."""
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        eos_token_id=special_id(tokenizer, TURN_END),
        pad_token_id=special_id(tokenizer, END_OF_TEXT),
        do_sample=False,
    )
    model.bfloat16().save_pretrained(folder)
    save_tokenizer(tokenizer, folder)


@torch.inference_mode()
def held_out_losses(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, rows: Mapping[str, Sequence[Row]]
) -> dict[str, float]:
    """Return nats per answer token (its end included) of each family, teacher-forced, one row at a time."""
    losses = {}
    for family, members in rows.items():
        total = count = 0.0
        for row in members:
            document = to_document(tokenizer, row)
            ids = torch.tensor([document.ids])
            answer = torch.tensor(document.weights[1:]) == 1.0
            each = F.cross_entropy(
                model(input_ids=ids).logits[0, :-1].float(), ids[0, 1:], reduction="none"
            )
            total, count = total + each[answer].sum().item(), count + answer.sum().item()
        losses[family] = total / count
    return losses
