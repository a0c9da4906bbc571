"""The lab's target: an eight-layer Qwen3 of 1.7 M parameters, trained from scratch on one core.

Depth makes a speedup real: a draft of two layers costs a quarter of a step of eight. Master weights are
fp32 with bf16 autocast; what is shipped is rounded to bf16 once, at the end, and run in fp32 from then on.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch.nn import functional as F
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from dflash_bench.lab.corpus.row import Row
from dflash_bench.lab.tokenizer import END_OF_TEXT, MAX_POSITIONS, TURN_END, VOCAB_SIZE, special_id
from dflash_bench.lab.tokenizer import save as save_tokenizer
from dflash_bench.lab.windows import Batch, batches, to_document

SEED = 20
STEPS = 1600
WARM_UP_STEPS = 100
LEARNING_RATE = 3e-3
CHECKPOINT_EVERY = 150
Progress = Callable[[str], None]


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
    model: torch.nn.Module, opt: torch.optim.AdamW, loss: torch.Tensor, learning_rate: float
) -> float:
    """Take one clipped step down `loss` and return its value."""
    for group in opt.param_groups:
        group["lr"] = learning_rate
    opt.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    return loss.item()


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
    opt = optimiser(model, LEARNING_RATE)
    start = resume(checkpoint, model, opt)
    began = time.perf_counter()
    source: Iterator[Batch] = itertools.islice(batches(tokenizer, rows, SEED), start, steps)
    for step, batch in enumerate(source, start):
        rate = LEARNING_RATE * cosine(step, steps=steps, warm_up=WARM_UP_STEPS)
        loss = train_step(model, opt, weighted_loss(model, batch), rate)
        if step % 25 == 0:
            progress(
                f"target step {step}/{steps} loss {loss:.3f} ({time.perf_counter() - began:.0f} s)"
            )
        if (step + 1) % CHECKPOINT_EVERY == 0 or step + 1 == steps:
            keep(checkpoint, model, opt, step + 1)
    return model


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
