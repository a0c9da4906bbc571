"""The layouts in which Medusa heads are published, read as one: the heads only, for an unchanged target.

Medusa   {"medusa_num_heads": 5, "medusa_num_layers": 1, "base_model_name_or_path": ...} beside
         `medusa_lm_head.pt` or `.safetensors`: {i}.{l}.linear.weight, {i}.{l}.linear.bias, {i}.{L}.weight,
         with `medusa_head.` in front where it was saved from a whole model
vLLM     {"num_heads": 5, "num_hidden_layers": 1, "hidden_size": .., "vocab_size": ..} beside safetensors:
         blocks.{i}.layers.{l}.weight, lm_heads.{i}.weight (one for all heads: original_lm_head), and where
         truncated_vocab_size is below vocab_size a token_map of the tokens that the rows stand for

Published Medusa configs miscount their own heads (FasterDecoding/medusa-vicuna-7b-v1.3 says 2 and holds
5), so the tensors are counted, and what the config says of them is kept as `claimed_heads`. A file with
more than heads in it is Medusa-2's, whose backbone was trained along: another target, and refused.
"""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from dflash_bench.engine.methods.checkpoint import CONFIG, read_json, read_tensors
from dflash_bench.engine.methods.medusa_model import MedusaConfig
from dflash_bench.errors import ConfigError

PICKLE, SAFE = "medusa_lm_head.pt", "medusa_lm_head.safetensors"
_PREFIXES = ("medusa_head.", "medusa_heads.")
_REMEDY = "Use a Medusa-1 checkpoint: the heads of an unchanged model, with their own config.json."

_SIZES = {"hidden_size", "vocab_size"}
_MEDUSA = {"medusa_num_heads", "medusa_num_layers", "medusa_fc_bias"}
_VLLM = {"num_heads", "num_hidden_layers", "truncated_vocab_size", "original_lm_head"}
_HARMLESS = {
    *("_name_or_path", "architectures", "model_type", "dtype", "torch_dtype"),
    *("transformers_version", "base_model_name_or_path", "version", "decoding_strategy"),
    *("max_paths", "topk", "max_seq_len", "medusa_choices"),
}


class Heads(NamedTuple):
    """What a folder holds: the shape, the tensors in Medusa's names, and which tokens their rows are."""

    config: MedusaConfig
    tensors: dict[str, Tensor]
    token_map: Tensor | None


def read_heads(folder: Path) -> Heads:
    """Read a checkpoint folder of any layout.

    Raises ConfigError if it holds no Medusa heads, or some that would be misread; that every tensor is
    there, and of the shape that `config` says, is left to the caller.
    """
    raw = read_json(folder / CONFIG)
    _refuse_unknown(raw, folder / CONFIG)
    layers_key = "medusa_num_layers" if "medusa_num_layers" in raw else "num_hidden_layers"
    layers = _integer(raw, layers_key, folder / CONFIG, default=1)
    tensors = {_without_prefix(name): tensor for name, tensor in _read(folder).items()}
    token_map = tensors.pop("token_map", None)
    if raw.get("truncated_vocab_size") in (None, raw.get("vocab_size")):
        token_map = None  # as in vLLM: of a full vocabulary nothing is mapped
    if token_map is not None:
        _check_map(token_map, raw, folder)
        token_map = token_map.long()
    if any(name.startswith("blocks.") for name in tensors):
        tensors = _from_vllm(tensors, raw, token_map, layers)
    return Heads(_config(raw, tensors, token_map, layers, folder), tensors, token_map)


def _read(folder: Path) -> dict[str, Tensor]:
    """Read all tensors: Medusa's safetensors, plain safetensors, or else the pickle, safely."""
    if not (folder / SAFE).is_file():
        return read_tensors(folder, PICKLE)
    try:
        return load_file(folder / SAFE)
    except SafetensorError as error:
        raise ConfigError(
            f"{folder / SAFE} is no readable safetensors file: {error}.",
            remedy="Download the checkpoint again.",
        ) from None


def _without_prefix(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _refuse_unknown(raw: dict[str, Any], file: Path) -> None:
    """Refuse what might change the heads without a tensor to tell, and a config of neither layout."""
    for key, value in raw.items():
        if key not in _MEDUSA | _VLLM | _SIZES | _HARMLESS and (key, value) != ("logit_scale", 1):
            raise ConfigError(
                f"{file}: {key} is {json.dumps(value)[:200]}: this key is unknown, and might change the heads.",
                remedy=_REMEDY,
            )
    if not raw.keys() & {"medusa_num_heads", "num_heads"}:
        raise ConfigError(
            f"{file} has neither medusa_num_heads nor num_heads.",
            remedy=_REMEDY,
        )


def _integer(raw: dict[str, Any], key: str, file: Path, default: int | None = None) -> int:
    value = raw.get(key, default)
    if type(value) is not int or value < 1:
        raise ConfigError(
            f"{file}: {key} is {json.dumps(value)}: an integer of at least 1 is needed here.",
            remedy=_REMEDY,
        )
    return value


def _from_vllm(
    tensors: dict[str, Tensor], raw: dict[str, Any], token_map: Tensor | None, layers: int
) -> dict[str, Tensor]:
    """Rename vLLM's tensors to Medusa's names; of a full output matrix take the rows that are mapped."""
    named = {}
    for name, tensor in tensors.items():
        place = re.fullmatch(r"blocks\.(\d+)\.layers\.(\d+)\.(weight|bias)", name)
        head = re.fullmatch(r"lm_head(?:s\.(\d+))?\.weight", name)
        if place:
            name = f"{place[1]}.{place[2]}.linear.{place[3]}"
        elif head:
            name = f"{head[1] or 0}.{layers}.weight"
            if token_map is not None and _has_rows(tensor, token_map):
                tensor = tensor[token_map]
        named[name] = tensor
    if raw.get("original_lm_head") and f"0.{layers}.weight" in named:
        one = named[f"0.{layers}.weight"]
        named |= {f"{head}.{layers}.weight": one for head in range(_count_heads(named))}
    return named


def _config(
    raw: dict[str, Any],
    tensors: dict[str, Tensor],
    token_map: Tensor | None,
    layers: int,
    folder: Path,
) -> MedusaConfig:
    """Join what the config says and what the tensors show; `check_tensors` compares the two."""
    file, output = folder / CONFIG, tensors.get(f"0.{layers}.weight")
    strange = [name for name in tensors if not re.match(r"\d+\.\d+\.", name)]
    if strange or output is None or output.ndim != 2:
        reason = f"head 0 has no matrix 0.{layers}.weight behind its {layers} layers"
        if strange:
            reason = f"{strange[0]} is none of theirs"
        raise ConfigError(f"The weights in {folder} are no Medusa heads: {reason}.", remedy=_REMEDY)
    is_medusa, num_heads = "medusa_num_heads" in raw, _count_heads(tensors)
    claimed = _integer(raw, "medusa_num_heads" if is_medusa else "num_heads", file)
    vocab_size = _integer(raw, "vocab_size", file, len(output))
    return MedusaConfig(
        hidden_size=_integer(raw, "hidden_size", file, output.shape[1]),
        vocab_size=vocab_size,
        num_heads=num_heads,
        num_layers=layers,
        fc_bias=bool(raw.get("medusa_fc_bias", "0.0.linear.bias" in tensors)),
        draft_vocab_size=None if token_map is None else len(token_map),
        claimed_heads=None if claimed == num_heads else claimed,
    )


def _count_heads(tensors: dict[str, Tensor]) -> int:
    return len({name.split(".")[0] for name in tensors})


def _has_rows(tensor: Tensor, token_map: Tensor) -> bool:
    """Tell whether a matrix has rows beyond those of the map, and all that the map asks for."""
    return tensor.ndim == 2 and len(tensor) > max(len(token_map), int(token_map.max()))


def _check_map(token_map: Tensor, raw: dict[str, Any], folder: Path) -> None:
    """Refuse a token map that is not as many different tokens of the vocabulary as it claims."""
    count = _integer(raw, "truncated_vocab_size", folder / CONFIG)
    vocab_size = _integer(raw, "vocab_size", folder / CONFIG)
    known = set(token_map.flatten().tolist()) & set(range(vocab_size))
    if token_map.is_floating_point() or token_map.shape != (count,) or len(known) != count:
        raise ConfigError(
            f"{folder}: token_map is no list of truncated_vocab_size {count} different tokens from 0 to"
            f" {vocab_size - 1}.",
            remedy=_REMEDY,
        )
