"""What a DFlash checkpoint's `config.json` says, and what it may say.

The published format is a Qwen3 configuration with additions:

    {"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "hidden_size": 4096, ...,
     "block_size": 16, "num_target_layers": 36,
     "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]}}

Newer checkpoints keep `block_size` inside `dflash_config`, others keep its members on top, and RoPE
is written as `rope_theta` (transformers 4) or `rope_parameters` (5): all are read. DFlash2 (architecture
DFlash2DraftModel) adds the sizes of its convolutions and its selector to `dflash_config`. Ours alone are
`"noise": "gaussian"` and `noise_scale`, of a drafter that was trained on noise instead of masks. What
`speculators` writes is read in `dflash_speculators`.

Reading is strict on purpose: every key must be known, and whatever asks for something that the network
does not do is refused in one sentence that names the file, the key and the value.
"""

from pathlib import Path
from typing import Any

from dflash_bench.engine.methods import dflash_fields, dflash_speculators, fields
from dflash_bench.engine.methods.checkpoint import read_json
from dflash_bench.engine.methods.dflash_fields import REMEDY
from dflash_bench.engine.methods.dflash_shape import DFlashConfig, SecondShape
from dflash_bench.engine.methods.fields import ConfigFile, Json, refusal

__all__ = ["DFlashConfig", "SecondShape", "read_config", "to_json"]

ARCHITECTURE, SECOND_ARCHITECTURE = "DFlashDraftModel", "DFlash2DraftModel"

# Keys that live on top in some checkpoints and inside `dflash_config` in others.
_SECOND = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")
_SCALES = ("output_multiplier", "input_embedding_scale", "final_logit_softcapping")
_DFLASH = ("block_size", "mask_token_id", "target_layer_ids", "num_target_layers")
_BOTH = {*_DFLASH, *_SECOND, *_SCALES, "is_causal"}
_INNER = {*_BOTH, "causal", "use_swa", "swa_window_size", "noise", "noise_scale"}
_TOP = {
    *(*dflash_fields.SHAPES, *_BOTH, "dflash_config", "rms_norm_eps"),
    *(*dflash_fields.ROPE_KEYS, *dflash_fields.ATTENTION_KEYS, *dflash_fields.HARMLESS),
}


def read_config(path: Path) -> DFlashConfig:
    """Read and check a checkpoint's `config.json`, in z-lab's form or in speculators'.

    Raises ConfigError if the file is absent, is not JSON, lacks a key, or holds a key or a value
    that this network does not honour.
    """
    raw, file = read_json(path), ConfigFile(path, REMEDY)
    if "speculators_model_type" in raw:
        return dflash_speculators.to_config(raw, file)
    second = raw.get("architectures") == [SECOND_ARCHITECTURE]
    if not second and raw.get("architectures") != [ARCHITECTURE]:
        reason = f"only ['{ARCHITECTURE}'] and ['{SECOND_ARCHITECTURE}'] are supported"
        raise refusal(file, "architectures", raw.get("architectures"), reason)
    inner = raw.get("dflash_config") or {}
    if not isinstance(inner, dict):
        raise refusal(file, "dflash_config", inner, "an object is needed here")
    dflash_fields.refuse_unknown(raw, _TOP, raw, file)
    dflash_fields.refuse_unknown([f"dflash_config.{key}" for key in inner], _INNER, inner, file)
    merged = _merge(raw, inner, file)
    if not second and (extra := [key for key in _SECOND if merged.get(key) is not None]):
        reason = f"only {SECOND_ARCHITECTURE} has it, and architectures names {ARCHITECTURE}"
        raise refusal(file, extra[0], merged[extra[0]], reason)
    return DFlashConfig(
        **dflash_fields.shapes(merged, file),
        **dflash_fields.rope(raw, file),
        **_scales(merged, file),
        rms_norm_eps=fields.number(merged, "rms_norm_eps", file),
        block_size=fields.integer(merged, "block_size", file, least=2),
        mask_token_id=fields.integer(merged, "mask_token_id", file, least=0),
        target_layer_ids=dflash_fields.layer_ids(merged, "target_layer_ids", file),
        num_target_layers=dflash_fields.optional_integer(merged, "num_target_layers", file),
        attention=dflash_fields.attention(raw, inner, file),
        second=_second(merged, file) if second else None,
        noise_scale=_noise_scale(inner, second, file),
    )


def to_json(config: DFlashConfig, dtype: str) -> Json:
    """Return the `config.json` of `config`, in z-lab's form, for weights of `dtype`."""
    if config.own_embeddings or config.draft_vocab_size or config.sample_from_anchor:
        raise ValueError("z-lab's form has no embedding, no output head and no shift of its own")
    inner: Json = {
        "mask_token_id": config.mask_token_id,
        "target_layer_ids": list(config.target_layer_ids),
    }
    if config.second is not None:
        inner |= {key: getattr(config.second, key) for key in _SECOND}
    plain = {"output_multiplier": 1.0, "input_embedding_scale": 1.0}
    scales = {key: getattr(config, key) for key in _SCALES}
    inner |= {key: value for key, value in scales.items() if value != plain.get(key)}
    if config.noise_scale is not None:
        inner |= {"noise": "gaussian", "noise_scale": config.noise_scale}
    found: Json = {
        "architectures": [ARCHITECTURE if config.second is None else SECOND_ARCHITECTURE],
        "model_type": "qwen3",
        "hidden_act": "silu",
        "attention_bias": False,
        "dtype": dtype,
        "tie_word_embeddings": True,
        "dflash_config": inner,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "block_size": config.block_size,
        "num_target_layers": config.num_target_layers,
        **{key: getattr(config, key) for key in dflash_fields.SHAPES},
        **dflash_fields.attention_json(config.layers),
    }
    if config.rope_scaling:
        found["rope_scaling"] = dict(config.rope_scaling)
        found["max_position_embeddings"] = config.max_position_embeddings
    return found


def _merge(raw: Json, inner: Json, file: ConfigFile) -> Json:
    """Lay `dflash_config` over the top level; a key in both places must agree."""
    for key in _BOTH:
        if key in raw and key in inner and raw[key] != inner[key]:
            raise refusal(file, key, raw[key], f"dflash_config says {inner[key]!r}")
    return {**raw, **{key: inner[key] for key in _BOTH if key in inner}}


def _second(merged: Json, file: ConfigFile) -> SecondShape:
    second = SecondShape(**{key: fields.integer(merged, key, file) for key in _SECOND})
    if merged["hidden_size"] % second.conv_group_size:
        reason = f"it does not divide hidden_size {merged['hidden_size']}"
        raise refusal(file, "conv_group_size", second.conv_group_size, reason)
    return second


def _scales(merged: Json, file: ConfigFile) -> dict[str, Any]:
    """Read the factors that are there; a softcap of 0 is none, as in PyPI's dflash 0.1.0."""
    found = {key: merged[key] for key in _SCALES if merged.get(key) is not None}
    if found.get("final_logit_softcapping") == 0:
        del found["final_logit_softcapping"]
    return {key: fields.number(found, key, file) for key in found}


def _noise_scale(inner: Json, second: bool, file: ConfigFile) -> float | None:
    noise = inner.get("noise", "mask")
    if noise not in ("mask", "gaussian") or (second and noise != "mask"):
        raise refusal(file, "noise", noise, "'mask' is needed here, or 'gaussian' without DFlash2")
    if noise == "gaussian":
        return fields.number(inner, "noise_scale", file)
    if "noise_scale" in inner:
        raise refusal(file, "noise_scale", inner["noise_scale"], "noise is not 'gaussian'")
    return None
