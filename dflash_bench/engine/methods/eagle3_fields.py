"""Reading an EAGLE-3 configuration strictly: a value that is not honoured is refused with file and key.

A wrong RoPE or norm raises no error and changes no output: it only costs acceptance. So every key must
be one that is read, one of which a single value is honoured, or one that is known to change nothing.
"""

import json
import math
from collections.abc import Set
from pathlib import Path
from typing import Any

from dflash_bench.errors import ConfigError

Json = dict[str, Any]

# Keys that change the computation, with the only values for which this network computes the same.
_FIXED: dict[str, tuple[object, ...]] = {
    "model_type": ("llama",),
    "hidden_act": ("silu",),
    "num_hidden_layers": (1,),
    "attention_dropout": (0, None),
    "mlp_bias": (False, None),
    "bias": (False, None),
    "qkv_bias": (False, None),
    "is_causal": (True, None),
    "use_sliding_window": (False, None),
    "partial_rotary_factor": (1, None),
    "logit_scale": (1, None),
    "pretraining_tp": (1, None),  # slices of one sum, in another order
    "use_aux_hidden_state": (True, None),
    "use_input_layernorm_in_first_layer": (True, None),
    "use_last_layernorm": (True, None),
    "use_mtp_layernorm": (False, None),
    "next_layer_regular": (True, None),
    "parallel_drafting": (False, None),
    "parallel_draft_step": (1, None),
}

# Keys that every Hugging Face configuration carries and that change nothing in this forward pass.
_HARMLESS = {
    *("_name_or_path", "architectures", "auto_map", "dtype", "torch_dtype", "transformers_version"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings", "initializer_range"),
    *("chunk_size_feed_forward", "id2label", "label2id", "problem_type", "use_cache"),
    *("is_decoder", "is_encoder_decoder", "return_dict", "output_attentions"),
    *("output_hidden_states", "max_window_layers", "target_model_type"),
    *("base_model_ep_plan", "base_model_pp_plan", "base_model_tp_plan"),
    *("parallel_draft_heads_num_layers", "embed_requires_grad", "enable_sp_ulysses"),
    *("has_no_defaults_at_init", "speculators_config", "speculators_model_type"),
    "speculators_version",
}

# What each RoPE needs to be told, and what it may be told, in transformers' terms.
_YARN = {"original_max_position_embeddings", "beta_fast", "beta_slow", "attention_factor"}
_ROPES: dict[str, tuple[set[str], set[str]]] = {
    "default": (set(), set()),
    "linear": ({"factor"}, set()),
    "llama3": (
        {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
        set(),
    ),
    "yarn": ({"factor"}, _YARN | {"mscale", "mscale_all_dim", "truncate"}),
}


def refuse_unknown(raw: Json, read: Set[str], file: Path) -> None:
    """Refuse every key that is neither `read`, nor fixed to the value that it has, nor harmless."""
    for key, value in raw.items():
        if key in _FIXED:
            demand(raw, key, _FIXED[key], file)
        elif key not in read | _HARMLESS:
            raise refusal(file, key, value, "this key is unknown, and might change the network")


def rope(raw: Json, file: Path) -> Json:
    """Read RoPE in transformers 4's keys or 5's; a base that is said nowhere is Llama's, 10,000."""
    found: Json = {}
    for key in ("rope_scaling", "rope_parameters"):
        told = mapping(raw, key, file) if raw.get(key) is not None else {}
        if found and told and found != told:
            raise refusal(file, key, told, "rope_scaling says something else")
        found |= told
    kind = found.pop("type", None) or "default"
    kind = found.pop("rope_type", kind)
    if not isinstance(kind, str) or kind not in _ROPES:
        raise refusal(file, "rope_type", kind, f"only {', '.join(_ROPES)} are supported")
    needed, known = _ROPES[kind]
    for key in found.keys() - needed - known - {"rope_theta"}:
        raise refusal(file, key, found[key], f"RoPE of type {kind} has no such key")
    for key in needed:
        number(found, key, file)
    for key in found.keys() & known:
        if found[key] is not None:
            (boolean if key == "truncate" else number)(found, key, file)
    bases = {number(r, "rope_theta", file) for r in (raw, found) if r.get("rope_theta") is not None}
    if len(bases) > 1:
        raise refusal(file, "rope_theta", sorted(bases), "it is said twice, differently")
    return {**found, "rope_type": kind, "rope_theta": bases.pop() if bases else 10_000.0}


def demand(raw: Json, key: str, allowed: tuple[object, ...], file: Path) -> None:
    """Refuse a value that is none of `allowed`."""
    if raw.get(key) not in allowed:
        raise refusal(file, key, raw.get(key), f"only {allowed[0]!r} is supported")


def mapping(raw: Json, key: str, file: Path) -> Json:
    """Read an object."""
    value = raw.get(key)
    if not isinstance(value, dict):
        raise refusal(file, key, value, "an object is needed here")
    return dict(value)


def boolean(raw: Json, key: str, file: Path) -> bool:
    """Read true or false; absent is false."""
    value = raw.get(key)
    if value is not None and type(value) is not bool:
        raise refusal(file, key, value, "true or false is needed here")
    return bool(value)


def optional(raw: Json, key: str, default: int, file: Path) -> int:
    """Read a positive integer that may be absent."""
    return default if raw.get(key) is None else integer(raw, key, file)


def integer(raw: Json, key: str, file: Path) -> int:
    """Read a positive integer."""
    value = raw.get(key)
    if type(value) is not int or value < 1:  # bool is an int to isinstance, and not to us
        raise refusal(file, key, value, "an integer of at least 1 is needed here")
    return value


def number(raw: Json, key: str, file: Path) -> float:
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
        remedy="Use an EAGLE-3 checkpoint in SafeAILab's, SpecForge's or speculators' format.",
    )
