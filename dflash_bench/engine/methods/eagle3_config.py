"""What an EAGLE-3 checkpoint's `config.json` says, in the two formats that are published.

SafeAILab and SpecForge write a flat Llama configuration with additions:

    {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1, ...,
     "draft_vocab_size": 32000, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 17, 33]}}

speculators nests the layer's, and counts taps by transformers' `hidden_states`, whose first is the embedding:

    {"speculators_model_type": "eagle3", "draft_vocab_size": 32000, "norm_before_residual": true,
     "eagle_aux_hidden_state_layer_ids": [2, 18, 33], "transformer_layer_config": {...}}

Reading is strict on purpose. A wrong RoPE, norm or tap raises no error and changes no output: it only
costs acceptance. So every key must be known, and what this network does not do is refused by name.
"""

from pathlib import Path

from dflash_bench.engine.methods.checkpoint import read_json
from dflash_bench.engine.methods.eagle3_fields import REMEDY, refuse_unknown, rope
from dflash_bench.engine.methods.eagle3_model import Eagle3Config
from dflash_bench.engine.methods.fields import (
    ConfigFile,
    Json,
    boolean,
    demand,
    integer,
    mapping,
    number,
    refusal,
)

TAPS, NEWER_TAPS = "eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids"
_SHAPES = ("hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")
_SWITCHES = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")

_READ = {
    *(*_SHAPES, *_SWITCHES, TAPS, NEWER_TAPS, "rope_theta", "rope_scaling", "rope_parameters"),
    *("num_key_value_heads", "head_dim", "rms_norm_eps", "attention_bias", "draft_vocab_size"),
    *("target_hidden_size", "max_position_embeddings", "eagle_config", "transformer_layer_config"),
    *("layer_types", "sliding_window"),
}


def read_config(path: Path) -> Eagle3Config:
    """Read and check a checkpoint's `config.json`, of either format.

    `own_embeddings` is left False: the weights tell. Raises ConfigError if the file is absent, is not
    JSON, lacks a key, or holds a key or a value that this network does not honour.
    """
    raw, file = read_json(path), ConfigFile(path, REMEDY)
    nested = raw.get("speculators_model_type") is not None
    if nested:
        demand(raw, "speculators_model_type", ("eagle3",), file)
        layer = mapping(raw, "transformer_layer_config", file)
        raw = {key: value for key, value in raw.items() if key != "model_type"}  # the wrapper's own
    else:
        layer = mapping(raw, "eagle_config", file) if raw.get("eagle_config") else {}
    merged = _merge(raw, layer, file)
    if not nested and merged.get("draft_vocab_size") is None:
        raise refusal(file, "draft_vocab_size", None, "it marks an EAGLE-3 checkpoint")
    if nested and raw.get("norm_before_residual") is None:
        raise refusal(file, "norm_before_residual", None, "readers differ in what they assume")
    demand(merged, "num_hidden_layers", (1,), file)
    _refuse_windows(merged, file)
    return _config(merged, _taps(merged, file, nested), file)


def to_json(config: Eagle3Config, dtype: str) -> Json:
    """Return the flat `config.json` of `config` for weights of `dtype`.

    Taps are written as layers whose output is read if they start at 1, else as inputs: see `_taps`.
    Raises ValueError for taps that start at 0, of which no reader would make the same.
    """
    if config.taps and config.taps[0] == 0:
        raise ValueError(
            "the first tap cannot be layer 0: as an input it would be read as layer 1's output"
        )
    taps = config.taps and [tap + (config.taps[0] != 1) for tap in config.taps]
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_act": "silu",
        "num_hidden_layers": 1,
        "tie_word_embeddings": False,
        "dtype": dtype,
        **{key: getattr(config, key) for key in (*_SHAPES, "num_key_value_heads", "head_dim")},
        **{key: True for key in _SWITCHES if getattr(config, key)},
        "attention_bias": config.attention_bias,
        "target_hidden_size": config.target_hidden_size,
        "draft_vocab_size": config.draft_vocab_size,
        "rms_norm_eps": config.rms_norm_eps,
        "max_position_embeddings": config.max_position_embeddings,
        **_rope_json(config),
        **({"eagle_config": {TAPS: taps}} if taps else {}),
    }


def _config(raw: Json, taps: tuple[int, ...] | None, file: ConfigFile) -> Eagle3Config:
    shape: Json = {key: integer(raw, key, file) for key in _SHAPES}
    heads, hidden = shape["num_attention_heads"], shape["hidden_size"]
    kv_heads = integer(raw, "num_key_value_heads", file, default=heads)
    head_dim = integer(raw, "head_dim", file, default=hidden // heads)
    if heads % kv_heads:
        raise refusal(file, "num_key_value_heads", kv_heads, f"{heads} heads do not divide by it")
    if head_dim % 2:
        raise refusal(file, "head_dim", head_dim, "RoPE turns pairs: an even number is needed here")
    switches: Json = {key: bool(boolean(raw, key, file)) for key in (*_SWITCHES, "attention_bias")}
    return Eagle3Config(
        **shape,
        **switches,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        target_hidden_size=integer(raw, "target_hidden_size", file, default=hidden),
        draft_vocab_size=integer(raw, "draft_vocab_size", file, default=shape["vocab_size"]),
        rms_norm_eps=number(raw, "rms_norm_eps", file),
        max_position_embeddings=integer(raw, "max_position_embeddings", file),
        rope_parameters=rope(raw, file),
        taps=taps,
        num_taps=3 if taps is None else len(taps),
    )  # fmt: skip


def _taps(raw: Json, file: ConfigFile, nested: bool) -> tuple[int, ...] | None:
    """Read the taps as layers whose output is read.

    speculators' number i is `hidden_states[i]`, the output of layer i-1. In the flat format both
    readings occur; as SGLang does (its pull request 25454) a first number of 1 tells the other one,
    layer i's own output.
    """
    ids = raw.get(TAPS) or raw.get(NEWER_TAPS) or None  # an empty list is the default, too
    if ids is None:
        return None
    if not isinstance(ids, list) or any(type(i) is not int for i in ids):
        raise refusal(file, TAPS, ids, "a list of layer numbers is needed here")
    taps = tuple(i if not nested and ids[0] == 1 else i - 1 for i in ids)
    if min(taps) < 0:
        raise refusal(file, TAPS, ids, "it reaches before the first layer's output")
    return taps


def _rope_json(config: Eagle3Config) -> Json:
    scaling = dict(config.rope_parameters)
    plain, theta = scaling["rope_type"] == "default", scaling.pop("rope_theta")
    return {"rope_theta": theta, "rope_scaling": None if plain else scaling}


def _merge(raw: Json, inner: Json, file: ConfigFile) -> Json:
    """Lay the nested object over the top level; what both say of the network must agree."""
    for part in (raw, inner):
        refuse_unknown(part, _READ, file)
    told = {key: value for key, value in inner.items() if value is not None}
    for key in told.keys() & raw.keys() & _READ:
        if raw[key] not in (None, told[key]):
            raise refusal(file, key, raw[key], f"it is said twice, the other being {told[key]!r}")
    return {**raw, **told}


def _refuse_windows(raw: Json, file: ConfigFile) -> None:
    """Refuse sliding attention; a window's width may be left over from the target, switched off."""
    kinds = raw.get("layer_types") or []
    if not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds):
        raise refusal(file, "layer_types", kinds, "only full attention is supported")
    if raw.get("sliding_window") is not None and raw.get("use_sliding_window") is not False:
        raise refusal(
            file, "sliding_window", raw["sliding_window"], "only full attention is supported"
        )
