"""The models and prompts of `engine.py`: the shipped pair, and a mid-sized one with random weights."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from dflash_bench.engine.methods.dflash_checkpoint import save
from dflash_bench.engine.methods.dflash_config import DFlashConfig
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.engine.request import Request
from dflash_bench.lab import samples, tokenizer
from dflash_bench.lab.catalogue import MODELS

EOS = frozenset({2})
VOCAB, MASK = 8192, 3


@dataclass(frozen=True)
class Models:
    """Folders, what is asked one at a time, and what is asked of a full batch."""

    name: str
    target: Path
    dflash: Path
    draft_model: Path | None
    requests: list[Request]
    crowd: list[Request]


def small(folder: Path) -> Models:
    """The shipped pair, asked what it was trained for."""
    words = tokenizer.load(MODELS / "target")
    prompts = [
        tokenizer.encode(words, tokenizer.prompt_text(row.prompt))
        for rows in zip(*(samples.held_out(name) for name in ("math", "code", "chat")), strict=True)
        for row in rows
    ]
    draft_model = MODELS / "draft-model"
    return Models(
        name="small",
        target=MODELS / "target",
        dflash=MODELS / "dflash",
        draft_model=draft_model if draft_model.is_dir() else None,
        requests=_asked(prompts[:6], 48, EOS),
        crowd=_asked(prompts[:24], 48, EOS),
    )


def mid(folder: Path) -> Models:
    """A Qwen3 of 12 layers and hidden size 1024, a 5-layer DFlash drafter of block 16, a 2-layer draft model."""
    torch.manual_seed(0)
    _qwen3(12, 1024, 3072, 16, 8).save_pretrained(folder / "target")
    _qwen3(2, 256, 768, 4, 2).save_pretrained(folder / "draft-model")
    config = DFlashConfig(
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=5,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=64,
        vocab_size=VOCAB,
        rms_norm_eps=1e-6,
        rope_theta=10_000.0,
        block_size=16,
        mask_token_id=MASK,
        target_layer_ids=(1, 3, 5, 7, 9),
        num_target_layers=12,
    )
    save(DFlashModel(config), config, folder / "dflash")
    prompts = torch.randint(VOCAB, (16, 24)).tolist()
    # Long enough that few steps are near the limit, where upstream verifies less than a block.
    return Models(
        name="mid",
        target=folder / "target",
        dflash=folder / "dflash",
        draft_model=folder / "draft-model",
        requests=_asked(prompts[:1], 64, frozenset()),
        crowd=_asked(prompts, 6, frozenset()),
    )


BUILDERS: dict[str, Callable[[Path], Models]] = {"small": small, "mid": mid}
"""Model names of the command line; each writes what it has to write to the folder that it is given."""


def _qwen3(
    layers: int, hidden: int, intermediate: int, heads: int, kv_heads: int
) -> Qwen3ForCausalLM:
    """Draw random weights, wide enough that argmaxes are no near-ties."""
    config = Qwen3Config(
        vocab_size=VOCAB,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=64,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        initializer_range=0.1,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    return Qwen3ForCausalLM(config)


def _asked(prompts: list[list[int]], new_tokens: int, eos: frozenset[int]) -> list[Request]:
    return [Request(f"r{i}", tuple(prompt), new_tokens, eos, i) for i, prompt in enumerate(prompts)]
