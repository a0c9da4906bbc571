"""The models: a target and its drafter as folders, so that each side loads them in its own way.

The shipped pairs, and random weights of a vocabulary of eight, where chance alone accepts a draft in
eight. Some requests end at an end-of-sequence token, which may fall amid a burst, others by length.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from dflash_bench.engine.methods.dflash_checkpoint import save
from dflash_bench.engine.methods.dflash_config import DFlashConfig
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.engine.request import Request
from dflash_bench.lab import samples, tokenizer
from dflash_bench.lab.catalogue import MODELS

VOCAB, MASK, EOS = 8, 3, frozenset({5})
SEED = 2  # with it both families end by EOS amid texts, and accept some drafts at every block size
LAB_EOS = frozenset({2})


@dataclass(frozen=True)
class Pair:
    """A target's folder, its drafter's, and what both sides are asked."""

    target: Path
    draft: Path
    requests: list[Request]


def lab() -> Pair:
    """The trained pair, asked two questions of each kind that it was trained on."""
    words = tokenizer.load(MODELS / "target")
    prompts = [
        tokenizer.encode(words, tokenizer.prompt_text(row.prompt))
        for name in ("math", "code", "chat")
        for row in samples.held_out(name)[:2]
    ]
    return Pair(MODELS / "target", MODELS / "dflash", asked(prompts, 32, LAB_EOS))


def markov() -> Pair:
    """The known-answer pair: accepted per step 0, 0, 1, repeating."""
    folder = MODELS / "markov-target"
    words = tokenizer.load(folder)
    prompts = [tokenizer.encode(words, text) for text in ("abc", "d", "zzab", "bcda")]
    return Pair(folder, MODELS / "markov-dflash", asked(prompts, 24, LAB_EOS))


def random_weights(family: str, folder: Path) -> Pair:
    """Write a random target of `family` and a random drafter of block 16 to `folder`.

    The weights are drawn wide, so that no argmax is a near-tie.
    """
    shape: dict[str, Any] = {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
    }
    special: dict[str, Any] = {f"{name}_token_id": None for name in ("bos", "eos", "pad")}
    more = {
        **shape,
        **special,
        "num_hidden_layers": 4,
        "initializer_range": 0.4,
        "tie_word_embeddings": False,
        "max_position_embeddings": 256,
    }
    torch.manual_seed(SEED)
    model = (
        LlamaForCausalLM(LlamaConfig(**more))
        if family == "llama"
        else Qwen3ForCausalLM(Qwen3Config(**more))
    )
    model.save_pretrained(folder / "target")
    config = DFlashConfig(
        **shape,
        num_hidden_layers=2,
        rms_norm_eps=1e-6,
        rope_theta=10_000.0,
        block_size=16,
        mask_token_id=MASK,
        target_layer_ids=(0, 1, 2),
        num_target_layers=4,
    )
    save(DFlashModel(config), config, folder / "draft")
    prompts = torch.randint(VOCAB, (6, 15)).tolist()
    # Every other request has no end-of-sequence token: it goes on to its length.
    requests = asked([prompt[: 1 + 3 * i] for i, prompt in enumerate(prompts)], 32, EOS)
    requests = [
        replace(each, stop_ids=frozenset()) if i % 2 else each for i, each in enumerate(requests)
    ]
    return Pair(folder / "target", folder / "draft", requests)


def asked(prompts: Sequence[Sequence[int]], new_tokens: int, eos: frozenset[int]) -> list[Request]:
    """Make requests of `new_tokens`, and of the first prompt two more, of one and of two tokens."""
    requests = [
        Request(f"r{i}", tuple(prompt), new_tokens, eos, i) for i, prompt in enumerate(prompts)
    ]
    short = [Request(f"short{n}", tuple(prompts[0]), n, eos, 100 + n) for n in (1, 2)]
    return [*requests, *short]
