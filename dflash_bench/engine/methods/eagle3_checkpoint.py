"""EAGLE-3 checkpoints on disk, in the layouts of SafeAILab (`midlayer.*`) and speculators (`layers.0.*`).

Weights are `model.safetensors`, its shards, or `pytorch_model.bin`. Beside them lie two maps of a
reduced vocabulary: `d2t`, an *offset* (draft token i is the target's token i + d2t[i]), and `t2d`, true
for the target's tokens that can be drafted. `embed_tokens.weight` is used where it is published, and
borrowed from the target where it is not.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor

from dflash_bench.engine.methods.checkpoint import CONFIG, Fits, check_tensors, read_tensors, write
from dflash_bench.engine.methods.eagle3_config import read_config, to_json
from dflash_bench.engine.methods.eagle3_model import Eagle3Config, Eagle3Model
from dflash_bench.errors import ConfigError

PICKLE = "pytorch_model.bin"
# Projections of one input are one matrix in the network; on disk each has its own name.
_STACKED = {
    "midlayer.qkv_proj": tuple(f"midlayer.self_attn.{part}_proj" for part in "qkv"),
    "midlayer.gate_up_proj": ("midlayer.mlp.gate_proj", "midlayer.mlp.up_proj"),
    "midlayer.o_proj": ("midlayer.self_attn.o_proj",),
    "midlayer.down_proj": ("midlayer.mlp.down_proj",),
}
# What speculators publishes of the target, and what trainers leave behind: the network reads none of it.
_UNUSED = ("verifier_lm_head.weight", "verifier_norm.weight", "rotary_emb.inv_freq")


def load(
    folder: Path, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> Eagle3Model:
    """Read a checkpoint folder into a network ready to draft, its weights cast to `dtype`.

    Raises ConfigError if the folder is no EAGLE-3 checkpoint, or one that would be misread.
    """
    config = read_config(folder / CONFIG)
    found = {_flat_name(name): t for name, t in read_tensors(folder, PICKLE).items()}
    tensors = {name: t for name, t in found.items() if name not in _UNUSED}
    config = replace(config, own_embeddings="embed_tokens.weight" in tensors)
    d2t, t2d = (tensors.pop(name, None) for name in ("d2t", "t2d"))
    offsets = read_offsets(d2t, t2d, config, folder)
    with torch.device("meta"):  # shapes only: the weights come from the file
        model = Eagle3Model(config)
    shapes = {name: p.shape for name, p in _split(model).items()}
    check_tensors(shapes, tensors, folder)
    model = Eagle3Model(config)
    model.load_state_dict(_stack(tensors) | {"d2t": offsets}, assign=True)
    return model.to(device=device, dtype=dtype).eval().requires_grad_(False)


def save(model: Eagle3Model, folder: Path) -> None:
    """Write a checkpoint folder in SafeAILab's layout, in the dtype that the parameters have."""
    dtype = str(model.fc.weight.dtype).removeprefix("torch.")
    tensors = _split(model)
    t2d = torch.zeros(model.config.vocab_size, dtype=torch.bool)
    t2d[model.drafted().cpu()] = True
    write(folder, to_json(model.config, dtype), {**tensors, "d2t": model.d2t, "t2d": t2d})


def read_offsets(
    d2t: Tensor | None, t2d: Tensor | None, config: Eagle3Config, folder: Path
) -> Tensor:
    """Return `d2t` [V'] as int64, all zeros for the full vocabulary; checks it against `t2d` [V].

    Raises ConfigError if it is missing, leaves the vocabulary, or is no offset: then two draft tokens
    would be one and the same.
    """
    size, vocab = config.draft_vocab_size, config.vocab_size
    if d2t is None:
        if size == vocab:
            return torch.zeros(size, dtype=torch.int64)
        raise ConfigError(
            f"The weights in {folder} have no d2t, but draft_vocab_size is {size} of {vocab}.",
            remedy="Download the checkpoint again: without d2t the drafted tokens have no meaning.",
        )
    if d2t.shape != (size,):
        raise ConfigError(
            f"d2t in {folder} has shape {list(d2t.shape)}, expected [{size}], the draft_vocab_size.",
            remedy="Use the config.json and weights of one and the same checkpoint.",
        )
    if d2t.is_floating_point():
        raise ConfigError(
            f"d2t in {folder} is {str(d2t.dtype).removeprefix('torch.')}, expected integers.",
            remedy="Use a checkpoint whose d2t and t2d are in SafeAILab's form.",
        )
    ids = d2t.long() + torch.arange(size)
    fault = None
    if ids.min() < 0 or ids.max() >= vocab:
        fault = f"reaches token {int(ids.max() if ids.min() >= 0 else ids.min())} of {vocab}"
    elif len(set(ids.tolist())) < size:
        fault = "gives several draft tokens the same meaning"
    elif t2d is not None and (
        t2d.shape != (vocab,) or t2d.sum() != size or not t2d.bool()[ids].all()
    ):
        fault = "does not name the tokens that t2d marks"
    if fault:
        raise ConfigError(
            f"d2t in {folder} {fault}; it is read as an offset, token i being i + d2t[i].",
            remedy="Use a checkpoint whose d2t and t2d are in SafeAILab's form.",
        )
    return d2t.long()


def check_fit(config: Eagle3Config, target: Fits, folder: Path) -> tuple[int, ...]:
    """Return the target's layers to tap; refuse a drafter that was made for another target.

    Raises ConfigError with every mismatch found: what the drafter expects, what the target has.
    """
    layers = target.num_layers
    taps = config.taps or (1, layers // 2 - 1, layers - 4)
    wrong = [
        f"{name} {expected} expected, {found} found"
        for name, expected, found in (
            ("hidden_size", config.target_hidden_size, target.hidden_size),
            ("vocab_size", config.vocab_size, target.vocab_size),
        )
        if expected != found
    ]
    if not all(0 <= tap < layers for tap in taps):
        wrong.append(f"outputs of layers {list(taps)} expected, 0..{layers - 1} found")
    if not config.own_embeddings and config.hidden_size != target.hidden_size:
        wrong.append(f"embeddings of width {config.hidden_size} expected, in neither's weights")
    if wrong:
        raise ConfigError(
            f"The EAGLE-3 drafter in {folder} does not fit its target: {'; '.join(wrong)}.",
            remedy="Use the drafter that was trained for this target.",
        )
    return taps


def _flat_name(name: str) -> str:
    """Translate a published tensor's name to SafeAILab's layout."""
    name = name.removeprefix("model.")
    layer = "layers.0."
    return "midlayer." + name.removeprefix(layer) if name.startswith(layer) else name


def _stack(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Join what the network keeps in one matrix: from names as on disk to its own."""
    state = dict(tensors)
    for own, parts in _STACKED.items():
        for kind in (".weight", ".bias"):
            if parts[0] + kind in state:
                state[own + kind] = torch.cat([state.pop(part + kind) for part in parts])
    return state


def _split(model: Eagle3Model) -> dict[str, Tensor]:
    """Undo `_stack`: the network's weights under their names on disk, `d2t` left out."""
    config, tensors = model.config, dict(model.state_dict())
    heads = (config.num_attention_heads, *[config.num_key_value_heads] * 2)
    ends = {
        "midlayer.qkv_proj": [n * config.head_dim for n in accumulate(heads[:-1])],
        "midlayer.gate_up_proj": [config.intermediate_size],
    }
    for own, parts in _STACKED.items():
        for kind in (".weight", ".bias"):
            if own + kind in tensors:
                pieces = tensors.pop(own + kind).tensor_split(ends.get(own, []))
                tensors |= {part + kind: piece for part, piece in zip(parts, pieces, strict=True)}
    del tensors["d2t"]
    return tensors
