"""What a drafter's checkpoint says of itself, method by method: facts to print, sizes to compare."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dflash_bench.engine.methods import (
    dflash_checkpoint,
    draft_model,
    eagle3_checkpoint,
    medusa_checkpoint,
)
from dflash_bench.engine.methods.checkpoint import CONFIG, read_json
from dflash_bench.engine.methods.dflash_attention import LayerAttention
from dflash_bench.engine.pretrained import load_pretrained


class Memory(NamedTuple):
    """What a model takes on the device, in elements: its weights, and its cache for one token of context."""

    parameters: int
    cached_per_token: int

    def in_bytes(self, itemsize: int) -> tuple[int, int]:
        """Return (weights, cache of one token) in bytes, for elements of `itemsize` bytes."""
        return self.parameters * itemsize, self.cached_per_token * itemsize


# The yardstick of a drafter's memory: a draft model that people set beside Qwen3 targets. Counted from
# the config.json of huggingface.co/Qwen/Qwen3-0.6B: 28 layers, hidden 1024, intermediate 3072, 16 heads
# of 128 and 8 of keys, 151,936 tied embeddings.
_QWEN3_LAYER = 1024 * 128 * (16 + 8 + 8 + 16) + 3 * 1024 * 3072 + 2 * 1024 + 2 * 128
QWEN3_600M = Memory(151_936 * 1024 + 28 * _QWEN3_LAYER + 1024, 2 * 28 * 8 * 128)


class TargetShape(NamedTuple):
    """What of a target's `config.json` a drafter has to fit."""

    folder: Path
    hidden_size: int
    vocab_size: int
    num_layers: int
    max_positions: int
    rope: Mapping[str, Any]


@dataclass(frozen=True)
class Description:
    """What one checkpoint is.

    facts          name -> what it says, to be printed in this order
    memory         weights and cache
    fit            raises ConfigError if it cannot draft for a target
    rope           its rotary embedding as in a transformers 5 configuration; None: it has none
    taps           the target's layers whose output it reads, from 0; empty: none, or none said
    usual_taps     the ones that drafters of its kind read in a target of so many layers
    max_positions  what it was made for; None: not said
    doubts         what is odd in itself, whatever the target
    """

    facts: Mapping[str, str]
    memory: Memory
    fit: Callable[[TargetShape], None]
    rope: Mapping[str, Any] | None = None
    taps: tuple[int, ...] = ()
    usual_taps: Callable[[int], tuple[int, ...]] = lambda num_layers: ()
    max_positions: int | None = None
    doubts: tuple[str, ...] = ()


def describe(method: str, folder: Path) -> Description:
    """Read a checkpoint with the loader that drafts, in bf16, and say what it is.

    Raises ConfigError naming the key or tensor for a checkpoint that would be misread.
    """
    return _DESCRIBERS[method](folder)


def _describe_dflash(folder: Path) -> Description:
    model = dflash_checkpoint.load(folder, dtype=torch.bfloat16)
    config = model.config
    block, drafts = config.block_size, config.max_nodes - 1
    own = config.draft_vocab_size is not None
    facts = {
        "layers": f"{config.num_hidden_layers} of width {config.hidden_size}",
        "block": f"{block}, the anchor counted: {drafts} drafts (num_speculative_tokens {drafts})",
        "slots start as": "masks" if config.noise_scale is None else "Gaussian noise",
        "mask id": str(config.mask_token_id),
        "taps": _taps(config.target_layer_ids),
        "attention": "; ".join(_attention(config.layers)),
        "output head": _vocabulary("its own", config.draft_vocab_size, config.vocab_size)
        if own
        else "the target's",
        "embeddings": "its own" if config.own_embeddings else "the target's",
        "RoPE": said_rope(config.rope_parameters),
    }
    if config.second is not None:
        facts["DFlash2"] = (
            f"convolutions over {config.second.conv_kernel_size} tokens, selector among"
            f" {config.second.selector_top_k} candidates"
        )
    cached = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    return Description(
        facts,
        Memory(_count(model), cached),
        lambda target: dflash_checkpoint.check_fit(config, target),
        rope=config.rope_parameters,
        taps=config.target_layer_ids,
        usual_taps=lambda num_layers: evenly_spaced(num_layers, len(config.target_layer_ids)),
        max_positions=_positions(folder),
    )


def _describe_eagle3(folder: Path) -> Description:
    model = eagle3_checkpoint.load(folder, dtype=torch.bfloat16)
    config = model.config
    switches = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
    facts = {
        "layers": f"1 of width {config.hidden_size}",
        "taps": _taps(config.taps) if config.taps else "not said: outputs of layers 1, n/2-1, n-4",
        "output head": _vocabulary("its own", config.draft_vocab_size, config.vocab_size),
        "embeddings": "its own" if config.own_embeddings else "the target's",
        "norms": ", ".join(name for name in switches if getattr(config, name)) or "the usual ones",
        "RoPE": said_rope(config.rope_parameters),
    }
    cached = 2 * config.num_key_value_heads * config.head_dim

    def fit(target: TargetShape) -> None:
        eagle3_checkpoint.check_fit(config, target, folder)

    return Description(
        facts,
        Memory(_count(model), cached),
        fit,
        rope=config.rope_parameters,
        taps=config.taps or (),
        usual_taps=lambda num_layers: (1, num_layers // 2 - 1, num_layers - 4),
        max_positions=_positions(folder),
    )


def _describe_medusa(folder: Path) -> Description:
    heads = medusa_checkpoint.load(folder, dtype=torch.bfloat16)
    config = heads.config
    doubts: tuple[str, ...] = ()
    if config.claimed_heads is not None:
        doubts = (
            f"config.json says {config.claimed_heads} heads, the weights hold {config.num_heads}",
        )
    facts = {
        "heads": f"{config.num_heads}, residual layers of each: {config.num_layers}",
        "reads": "the target's final normed hidden state",
        "longest chain": f"block {config.num_heads + 1}: the anchor and {config.num_heads} drafts",
        "output heads": _vocabulary("its own", config.draft_vocab_size, config.vocab_size),
    }
    return Description(
        facts,
        Memory(_count(heads), 0),
        lambda target: medusa_checkpoint.check_fit(config, target),
        doubts=doubts,
    )


def _describe_draft_model(folder: Path) -> Description:
    model = load_pretrained(folder, torch.bfloat16, "cpu", "sdpa")
    config = model.config
    heads, width = config.num_attention_heads, config.hidden_size
    facts = {
        "architecture": type(model).__name__,
        "layers": f"{config.num_hidden_layers} of width {width}",
        "vocabulary": f"{config.vocab_size:,} tokens",
        "RoPE": said_rope(config.rope_parameters),
        "positions": f"{config.max_position_embeddings:,}",
    }
    head_dim = getattr(config, "head_dim", None) or width // heads
    cached = 2 * config.num_hidden_layers * config.num_key_value_heads * head_dim

    def fit(target: TargetShape) -> None:
        draft_model.check_fit(config.vocab_size, folder, target.vocab_size, target.folder)

    doubts: tuple[str, ...] = ()
    if not (folder / draft_model.TOKENIZER).is_file():
        doubts = (
            f"it has no {draft_model.TOKENIZER}: nothing tells whether its tokens are the target's",
        )
    return Description(
        facts,
        Memory(_count(model), cached),
        fit,
        max_positions=_positions(folder),
        doubts=doubts,
    )


def evenly_spaced(num_layers: int, count: int) -> tuple[int, ...]:
    """Return `count` layers from the second to the third-last: DFlash's usual taps.

    arXiv:2602.06036, section 4.2; one tap is the middle layer.
    """
    if count == 1:
        return (num_layers // 2,)
    last = num_layers - 3
    return tuple(round(1 + i * (last - 1) / (count - 1)) for i in range(count))


def _positions(folder: Path) -> int | None:
    """Return how many positions a checkpoint says it was made for; only some RoPE types compute with it."""
    raw = read_json(folder / CONFIG)
    nested = raw.get("transformer_layer_config")
    said = {**raw, **(nested if isinstance(nested, dict) else {})}.get("max_position_embeddings")
    return said if isinstance(said, int) else None


def _attention(layers: Sequence[LayerAttention]) -> list[str]:
    """Say layers that follow one another and see alike once."""
    said = []
    for attention, group in groupby(layers):
        reach = "full" if attention.window is None else f"window {attention.window}"
        direction = "causal" if attention.causal else "both directions"
        said.append(f"{len(list(group))} x {reach}, {direction}")
    return said


def _taps(taps: tuple[int, ...]) -> str:
    """Say the taps in both numberings: they are mixed up more often than anything else."""
    states = ", ".join(str(tap + 1) for tap in taps)
    return f"outputs of target layers {', '.join(map(str, taps))}, counted from 0 (hidden_states {states})"


def _vocabulary(whose: str, drafted: int | None, size: int) -> str:
    if drafted is None or drafted == size:
        return f"{whose}, {size:,} tokens"
    return f"{whose}, {drafted:,} of {size:,} tokens: no other can be drafted"


def said_rope(rope: Mapping[str, Any]) -> str:
    """Say a rotary embedding in a line."""
    rest = {key: value for key, value in rope.items() if key not in ("rope_type", "rope_theta")}
    said = f"{rope.get('rope_type', 'default')}, base {rope['rope_theta']:,.0f}"
    return said + "".join(f", {key} {value}" for key, value in rest.items())


def _count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


_DESCRIBERS: dict[str, Callable[[Path], Description]] = {
    "dflash": _describe_dflash,
    "medusa": _describe_medusa,
    "eagle3": _describe_eagle3,
    "draft_model": _describe_draft_model,
}
