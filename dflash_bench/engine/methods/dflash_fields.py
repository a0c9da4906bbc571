"""Reading a DFlash configuration strictly: a value of the wrong kind is refused with its file and key.

A wrong RoPE, tap or mask raises no error and changes no output: it only drops the acceptance to 1. So
nothing is guessed, and what both RoPE forms of transformers (4: `rope_theta`, `rope_scaling`; 5:
`rope_parameters`) say must agree.
"""

import json
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from dflash_bench.engine.methods.dflash_attention import LayerAttention
from dflash_bench.errors import ConfigError

Json = dict[str, Any]

SHAPES = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "vocab_size"),
)

# Keys that every Hugging Face configuration carries and that change nothing in this forward pass.
HARMLESS = {
    *("_name_or_path", "architectures", "auto_map", "dtype", "torch_dtype", "transformers_version"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings", "initializer_range"),
    *("chunk_size_feed_forward", "id2label", "label2id", "problem_type", "use_cache"),
    *("is_decoder", "is_encoder_decoder", "return_dict", "_attn_implementation"),
    *("output_attentions", "output_hidden_states", "max_window_layers"),
}

# Keys that change the computation, with the only values for which this network computes the same.
FIXED: dict[str, tuple[object, ...]] = {
    "model_type": ("qwen3",),
    "hidden_act": ("silu",),
    "attention_bias": (False, None),
    "attention_dropout": (0, None),
    "partial_rotary_factor": (1, None),
    "attention_sink_bias": (False, None),
    "is_neox_style": (True, None),
}

# What each kind of RoPE may say beside its base.
_ROPE: dict[str, set[str]] = {
    "default": set(),
    "linear": {"factor"},
    "llama3": {
        *("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    },
    "yarn": {
        *("factor", "original_max_position_embeddings", "attention_factor", "beta_fast"),
        *("beta_slow", "mscale", "mscale_all_dim", "truncate"),
    },
}
ROPE_KEYS = {"rope_theta", "rope_scaling", "rope_parameters", "max_position_embeddings"}
ATTENTION_KEYS = {"layer_types", "sliding_window", "use_sliding_window", "is_causal"}
_FULL, _SLIDING = "full_attention", "sliding_attention"


def refuse_unknown(keys: Collection[str], known: Collection[str], raw: Json, file: Path) -> None:
    """Refuse each of `keys` that is not `known`, and each fixed one with a value that we do not honour."""
    for key in keys:
        name = key.rpartition(".")[2]
        if name not in known and name not in FIXED:
            raise refusal(file, key, raw[name], "this key is unknown, and might change the network")
        if name in FIXED and raw[name] not in FIXED[name]:
            raise refusal(file, key, raw[name], f"only {FIXED[name][0]!r} is supported")


def rope(raw: Json, file: Path) -> Json:
    """Read RoPE: `rope_theta`, `rope_scaling` (None if it is plain) and `max_position_embeddings`."""
    said: list[Json] = []
    for key in ("rope_scaling", "rope_parameters"):
        found = raw.get(key) or {}
        if not isinstance(found, dict):
            raise refusal(file, key, found, "an object is needed here")
        if found:
            said.append(_scaling(found, key, file))
    if len(said) == 2 and said[0] != said[1]:
        raise refusal(file, "rope_scaling", said[0], f"rope_parameters says {said[1]!r}")
    both = [raw, *(raw.get(key) or {} for key in ("rope_scaling", "rope_parameters"))]
    thetas = {number(r, "rope_theta", file) for r in both if r.get("rope_theta") is not None}
    if len(thetas) != 1:
        how = "absent" if not thetas else f"said twice, differently: {sorted(thetas)}"
        raise ConfigError(
            f"{file}: rope_theta is {how}.", remedy="Use the checkpoint's own config.json."
        )
    scaling = said[0] if said and said[0]["rope_type"] != "default" else None
    longest = optional_integer(raw, "max_position_embeddings", file)
    if scaling and longest is None:
        raise refusal(file, "max_position_embeddings", None, f"{scaling['rope_type']} needs it")
    return {
        "rope_theta": thetas.pop(),
        "rope_scaling": scaling,
        "max_position_embeddings": longest if scaling else None,
    }


def _scaling(found: Json, key: str, file: Path) -> Json:
    """Return what `found` says beside the base, with `rope_type`."""
    kind = found.get("rope_type", found.get("type", "default"))
    if kind not in _ROPE:
        raise refusal(file, key, found, f"only rope_type {', '.join(_ROPE)} are supported")
    rest = {k: v for k, v in found.items() if k not in ("rope_type", "type", "rope_theta")}
    if extra := sorted(rest.keys() - _ROPE[kind]):
        raise refusal(file, key, found, f"{kind} RoPE has no {extra[0]}")
    return {"rope_type": kind, **rest}


def attention(raw: Json, inner: Mapping[str, Any], file: Path) -> tuple[LayerAttention, ...]:
    """Read each layer's window and direction; empty if all layers are full, in both directions.

    `inner` is `dflash_config`, where vLLM's `causal`, `use_swa` and `swa_window_size` may stand.
    """
    count, kinds = integer(raw, "num_hidden_layers", file), raw.get("layer_types")
    if kinds is None:
        if raw.get("use_sliding_window"):
            raise refusal(file, "layer_types", None, "with use_sliding_window it is needed")
        kinds = [_FULL] * count
    if (
        not isinstance(kinds, list)
        or len(kinds) != count
        or any(k not in (_FULL, _SLIDING) for k in kinds)
    ):
        raise refusal(file, "layer_types", kinds, f"{count} of {_FULL} and {_SLIDING} are needed")
    if _SLIDING in kinds and boolean(raw, "use_sliding_window", file) is not True:
        # transformers drops the window then: what such a file means is anyone's guess.
        found = raw.get("use_sliding_window")
        raise refusal(file, "use_sliding_window", found, f"layer_types has {_SLIDING}")
    causal = boolean(raw, "is_causal", file)
    for key in ("is_causal", "causal"):
        causal = boolean(inner, key, file) if causal is None else causal
    windows = _windows(kinds, raw, inner, file)
    layers = tuple(
        LayerAttention(window, kind == _SLIDING if causal is None else causal)
        for kind, window in zip(kinds, windows, strict=True)
    )
    return () if all(layer == LayerAttention() for layer in layers) else layers


def _windows(kinds: list[str], raw: Json, inner: Mapping[str, Any], file: Path) -> list[int | None]:
    everywhere = bool(boolean(inner, "use_swa", file))
    if not everywhere and _SLIDING not in kinds:
        return [None] * len(kinds)
    own = inner.get("swa_window_size") is not None
    window = (
        integer(inner, "swa_window_size", file) if own else integer(raw, "sliding_window", file)
    )
    return [window if everywhere or kind == _SLIDING else None for kind in kinds]


def attention_json(layers: tuple[LayerAttention, ...]) -> Json:
    """Return the keys that `attention` reads as `layers`; one window and one direction rule for all."""
    kinds = [_FULL if layer.window is None else _SLIDING for layer in layers]
    windows = {layer.window for layer in layers} - {None}
    directions = {layer.causal for layer in layers}
    by_kind = all(
        layer.causal == (kind == _SLIDING) for layer, kind in zip(layers, kinds, strict=True)
    )
    if len(windows) > 1 or not (by_kind or len(directions) == 1):
        raise ValueError(f"the published form cannot say {layers}")
    found: Json = {"layer_types": kinds}
    if windows:
        found |= {"use_sliding_window": True, "sliding_window": windows.pop()}
    return found if by_kind else {**found, "is_causal": directions.pop()}


def shapes(raw: Mapping[str, Any], file: Path) -> Json:
    """Read the sizes that every network has, by name."""
    return {key: integer(raw, key, file) for key in SHAPES}


def layer_ids(raw: Mapping[str, Any], key: str, file: Path, least: int = 0) -> tuple[int, ...]:
    """Read a list of layer numbers from `least` on."""
    ids = raw.get(key)
    if not isinstance(ids, list) or not ids or any(type(i) is not int or i < least for i in ids):
        raise refusal(file, key, ids, f"a list of layer numbers from {least} is needed here")
    return tuple(ids)


def integer(raw: Mapping[str, Any], key: str, file: Path, least: int = 1) -> int:
    """Read an integer of at least `least`."""
    value = raw.get(key)
    if type(value) is not int or value < least:  # bool is an int to isinstance, and not to us
        raise refusal(file, key, value, f"an integer of at least {least} is needed here")
    return value


def optional_integer(raw: Mapping[str, Any], key: str, file: Path) -> int | None:
    """Read a positive integer that may be absent."""
    return None if raw.get(key) is None else integer(raw, key, file)


def boolean(raw: Mapping[str, Any], key: str, file: Path) -> bool | None:
    """Read true or false, or None where it is absent."""
    value = raw.get(key)
    if value is not None and type(value) is not bool:
        raise refusal(file, key, value, "true or false is needed here")
    return value


def number(raw: Mapping[str, Any], key: str, file: Path) -> float:
    """Read a positive number."""
    value = raw.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise refusal(file, key, value, "a positive number is needed here")
    return float(value)


def refusal(file: Path, key: str, value: object, reason: str) -> ConfigError:
    """Return the error that names the file, the key, its value and what is wrong with it."""
    said = "absent" if value is None else json.dumps(value, default=str)
    return ConfigError(
        f"{file}: {key} is {said[:200]}: {reason}.",
        remedy="Use a DFlash checkpoint's own config.json: z-lab's form (first generation or DFlash2), "
        "or speculators'.",
    )
