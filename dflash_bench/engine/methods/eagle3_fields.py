"""What is particular to reading an EAGLE-3 configuration: its fixed keys, and RoPE.

Every key must be one that is read, one of which a single value is honoured, or one that is known to change nothing.
"""

from collections.abc import Set

from dflash_bench.engine.methods.fields import (
    HARMLESS,
    ConfigFile,
    Json,
    boolean,
    demand,
    mapping,
    number,
    refusal,
)

REMEDY = "Use an EAGLE-3 checkpoint in SafeAILab's, SpecForge's or speculators' format."

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

# Keys that change nothing in this forward pass.
_HARMLESS = HARMLESS | {
    *("target_model_type", "base_model_ep_plan", "base_model_pp_plan", "base_model_tp_plan"),
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


def refuse_unknown(raw: Json, read: Set[str], file: ConfigFile) -> None:
    """Refuse every key that is neither `read`, nor fixed to the value that it has, nor harmless."""
    for key, value in raw.items():
        if key in _FIXED:
            demand(raw, key, _FIXED[key], file)
        elif key not in read | _HARMLESS:
            raise refusal(file, key, value, "this key is unknown, and might change the network")


def rope(raw: Json, file: ConfigFile) -> Json:
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
