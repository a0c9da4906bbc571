"""What is particular to reading a DFlash configuration: its fixed keys, RoPE, each layer's attention.

What both RoPE forms of transformers (4: `rope_theta`, `rope_scaling`; 5:
`rope_parameters`) say must agree.
"""

from collections.abc import Collection, Mapping
from typing import Any

from dflash_bench.engine.methods import fields
from dflash_bench.engine.methods.dflash_attention import LayerAttention
from dflash_bench.engine.methods.fields import ConfigFile, Json, boolean, integer, number, refusal
from dflash_bench.errors import ConfigError

REMEDY = (
    "Use a DFlash checkpoint's own config.json: z-lab's form (first generation or DFlash2), "
    "or speculators'."
)

SHAPES = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "vocab_size"),
)

HARMLESS = {*fields.HARMLESS, "_attn_implementation"}

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


def refuse_unknown(
    keys: Collection[str], known: Collection[str], raw: Json, file: ConfigFile
) -> None:
    """Refuse each of `keys` that is not `known`, and each fixed one with a value that we do not honour."""
    for key in keys:
        name = key.rpartition(".")[2]
        if name not in known and name not in FIXED:
            raise refusal(file, key, raw[name], "this key is unknown, and might change the network")
        if name in FIXED and raw[name] not in FIXED[name]:
            raise refusal(file, key, raw[name], f"only {FIXED[name][0]!r} is supported")


def rope(raw: Json, file: ConfigFile) -> Json:
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


def _scaling(found: Json, key: str, file: ConfigFile) -> Json:
    """Return what `found` says beside the base, with `rope_type`."""
    kind = found.get("rope_type", found.get("type", "default"))
    if kind not in _ROPE:
        raise refusal(file, key, found, f"only rope_type {', '.join(_ROPE)} are supported")
    rest = {k: v for k, v in found.items() if k not in ("rope_type", "type", "rope_theta")}
    if extra := sorted(rest.keys() - _ROPE[kind]):
        raise refusal(file, key, found, f"{kind} RoPE has no {extra[0]}")
    return {"rope_type": kind, **rest}


def attention(raw: Json, inner: Mapping[str, Any], file: ConfigFile) -> tuple[LayerAttention, ...]:
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


def _windows(
    kinds: list[str], raw: Json, inner: Mapping[str, Any], file: ConfigFile
) -> list[int | None]:
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


def shapes(raw: Mapping[str, Any], file: ConfigFile) -> Json:
    """Read the sizes that every network has, by name."""
    return {key: integer(raw, key, file) for key in SHAPES}


def layer_ids(
    raw: Mapping[str, Any], key: str, file: ConfigFile, least: int = 0
) -> tuple[int, ...]:
    """Read a list of layer numbers from `least` on."""
    ids = raw.get(key)
    if not isinstance(ids, list) or not ids or any(type(i) is not int or i < least for i in ids):
        raise refusal(file, key, ids, f"a list of layer numbers from {least} is needed here")
    return tuple(ids)


def optional_integer(raw: Mapping[str, Any], key: str, file: ConfigFile) -> int | None:
    """Read a positive integer that may be absent."""
    return None if raw.get(key) is None else integer(raw, key, file)
