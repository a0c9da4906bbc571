"""What a DFlash checkpoint's `config.json` says, and what it may say.

The published format is a Qwen3 configuration with additions:

    {"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "hidden_size": 4096, ...,
     "block_size": 16, "num_target_layers": 36,
     "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]}}

Newer checkpoints keep `block_size` inside `dflash_config`, others keep its members on top, and RoPE
is written as `rope_theta` (transformers 4) or `rope_parameters` (5): all are read.

Reading is strict on purpose. A wrong RoPE, tap or mask raises no error and changes no output: it
only drops the acceptance to 1. So every key must be known, and whatever asks for something that the
network does not do is refused in one sentence that names the file, the key and the value.
"""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dflash_bench.engine.methods.checkpoint import read_json
from dflash_bench.errors import ConfigError

ARCHITECTURE = "DFlashDraftModel"

_SHAPES = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
)

# Keys that live on top in some checkpoints and inside `dflash_config` in others.
_DFLASH = ("block_size", "mask_token_id", "target_layer_ids", "num_target_layers")

# Keys that change the computation, with the only values for which this network computes the same.
_FIXED: dict[str, tuple[object, ...]] = {
    "model_type": ("qwen3",),
    "hidden_act": ("silu",),
    "attention_bias": (False, None),
    "attention_dropout": (0, None),
    "is_causal": (False, None),
    "use_sliding_window": (False, None),
    "partial_rotary_factor": (1, None),
    "input_embedding_scale": (1, None),
    "output_multiplier": (1, None),
    "final_logit_softcapping": (None,),
    "attention_sink_bias": (False, None),
    "is_neox_style": (True, None),
    "causal": (False, None),
    "use_swa": (False, None),
    "swa_window_size": (None,),
}

# Keys that every Hugging Face configuration carries and that change nothing in this forward pass.
_HARMLESS = {
    *("_name_or_path", "architectures", "auto_map", "dtype", "torch_dtype", "transformers_version"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings", "initializer_range"),
    *("chunk_size_feed_forward", "id2label", "label2id", "problem_type", "use_cache"),
    *("is_decoder", "is_encoder_decoder", "return_dict"),
    *("output_attentions", "output_hidden_states"),
    *("max_position_embeddings", "max_window_layers", "sliding_window"),
}

_READ = {
    *(*_SHAPES, *_DFLASH, "dflash_config", "layer_types", "rms_norm_eps"),
    *("rope_parameters", "rope_scaling", "rope_theta"),
}

_FOREIGN = {
    "speculators_model_type": "the speculators format",
    "transformer_layer_config": "the speculators format",
    "conv_group_size": "DFlash2",
    "conv_kernel_size": "DFlash2",
    "selector_rank": "DFlash2",
    "selector_top_k": "DFlash2",
}


@dataclass(frozen=True)
class DFlashConfig:
    """The draft network's shape, and how it is tied to its target.

    `block_size` counts the anchor: a block of 16 drafts 15 tokens. `target_layer_ids` are those
    decoder layers of the target, counted from 0, whose *output* is read (`hidden_states[i + 1]` in
    transformers). `num_target_layers` is None in a checkpoint that does not tell.
    """

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    rms_norm_eps: float
    rope_theta: float
    block_size: int
    mask_token_id: int
    target_layer_ids: tuple[int, ...]
    num_target_layers: int | None = None


def read_config(file: Path) -> DFlashConfig:
    """Read and check a checkpoint's `config.json`.

    Raises ConfigError if the file is absent, is not JSON, lacks a key, or holds a key or a value
    that this network does not honour.
    """
    raw = read_json(file)
    _refuse_other_formats(raw, file)
    inner = raw.get("dflash_config") or {}
    if not isinstance(inner, dict):
        raise _refusal(file, "dflash_config", inner, "an object is needed here")
    _refuse_unknown(raw, _READ | _HARMLESS | _FIXED.keys(), file, "")
    _refuse_unknown(inner, _FIXED.keys() | set(_DFLASH), file, "dflash_config.")
    for key, value in (*raw.items(), *inner.items()):
        if key in _FIXED and value not in _FIXED[key]:
            raise _refusal(file, key, value, f"only {_FIXED[key][0]!r} is supported")
    _refuse_sliding_layers(raw, file)

    merged = _merge(raw, inner, file)
    layers = merged.get("num_target_layers")
    return DFlashConfig(
        **{key: _integer(merged, key, file) for key in _SHAPES},
        rms_norm_eps=_number(merged, "rms_norm_eps", file),
        rope_theta=_rope_theta(raw, file),
        block_size=_integer(merged, "block_size", file, least=2),
        mask_token_id=_integer(merged, "mask_token_id", file, least=0),
        target_layer_ids=_layer_ids(merged, file),
        num_target_layers=None if layers is None else _integer(merged, "num_target_layers", file),
    )


def to_json(config: DFlashConfig, dtype: str) -> dict[str, Any]:
    """Return the `config.json` of `config`, in the published form, for weights of `dtype`."""
    values = asdict(config)
    taps = list(values.pop("target_layer_ids"))
    return {
        "architectures": [ARCHITECTURE],
        "model_type": "qwen3",
        "hidden_act": "silu",
        "attention_bias": False,
        "dtype": dtype,
        "layer_types": ["full_attention"] * config.num_hidden_layers,
        "tie_word_embeddings": True,
        "dflash_config": {"mask_token_id": values.pop("mask_token_id"), "target_layer_ids": taps},
        **values,
    }


def _refuse_other_formats(raw: dict[str, Any], file: Path) -> None:
    """Call the relatives of DFlash by their names, before one of their keys looks like a typo."""
    inner = raw.get("dflash_config")
    keys = {**raw, **(inner if isinstance(inner, dict) else {})}
    for key, name in _FOREIGN.items():
        if key in keys:
            raise _refusal(
                file, key, keys[key], f"this is a checkpoint of {name}, not supported yet"
            )
    if raw.get("architectures") != [ARCHITECTURE]:
        raise _refusal(
            file, "architectures", raw.get("architectures"), f"only ['{ARCHITECTURE}'] is supported"
        )


def _refuse_unknown(keys: dict[str, Any], known: set[str], file: Path, prefix: str) -> None:
    for key, value in keys.items():
        if key not in known:
            raise _refusal(
                file, prefix + key, value, "this key is unknown, and might change the network"
            )


def _refuse_sliding_layers(raw: dict[str, Any], file: Path) -> None:
    kinds = raw.get("layer_types") or []
    if not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds):
        raise _refusal(file, "layer_types", kinds, "only full attention is supported yet")


def _merge(raw: dict[str, Any], inner: dict[str, Any], file: Path) -> dict[str, Any]:
    """Lay `dflash_config` over the top level; a key in both places must agree."""
    for key in _DFLASH:
        if key in raw and key in inner and raw[key] != inner[key]:
            raise _refusal(file, key, raw[key], f"dflash_config says {inner[key]!r}")
    return {**raw, **{key: inner[key] for key in _DFLASH if key in inner}}


def _rope_theta(raw: dict[str, Any], file: Path) -> float:
    """Read the base of plain RoPE from either form; both, when present, must agree."""
    for key in ("rope_scaling", "rope_parameters"):
        rope = raw.get(key) or {}
        if not isinstance(rope, dict):
            raise _refusal(file, key, rope, "an object is needed here")
        kind = rope.get("rope_type", rope.get("type", "default"))
        extra = set(rope) - {"rope_type", "type", "rope_theta"}
        if kind != "default" or extra:
            raise _refusal(
                file, key, rope, "only plain RoPE (rope_type 'default') is supported yet"
            )
    both = [raw, *(raw.get(key) or {} for key in ("rope_scaling", "rope_parameters"))]
    thetas = {
        _number(each, "rope_theta", file) for each in both if each.get("rope_theta") is not None
    }
    if len(thetas) != 1:
        said = "absent" if not thetas else f"said twice, differently: {sorted(thetas)}"
        raise ConfigError(
            f"{file}: rope_theta is {said}.", remedy="Use the checkpoint's own config.json."
        )
    return thetas.pop()


def _layer_ids(merged: dict[str, Any], file: Path) -> tuple[int, ...]:
    ids = merged.get("target_layer_ids")
    if not isinstance(ids, list) or not ids or any(type(i) is not int or i < 0 for i in ids):
        raise _refusal(
            file, "target_layer_ids", ids, "a list of layer numbers from 0 is needed here"
        )
    return tuple(ids)


def _integer(raw: dict[str, Any], key: str, file: Path, least: int = 1) -> int:
    value = raw.get(key)
    if type(value) is not int or value < least:  # bool is an int to isinstance, and not to us
        raise _refusal(file, key, value, f"an integer of at least {least} is needed here")
    return value


def _number(raw: dict[str, Any], key: str, file: Path) -> float:
    value = raw.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise _refusal(file, key, value, "a positive number is needed here")
    return float(value)


def _refusal(file: Path, key: str, value: object, reason: str) -> ConfigError:
    said = "absent" if value is None else json.dumps(value, default=str)
    return ConfigError(
        f"{file}: {key} is {said[:200]}: {reason}.",
        remedy="Use a first-generation DFlash checkpoint (architecture DFlashDraftModel).",
    )
