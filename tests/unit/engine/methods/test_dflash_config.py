"""`config.json`: both published forms are read, and what would be misread is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.engine.methods.dflash_attention import LayerAttention
from dflash_bench.engine.methods.dflash_config import (
    DFlashConfig,
    SecondShape,
    read_config,
    to_json,
)
from dflash_bench.errors import ConfigError

# The configuration of z-lab/Qwen3-8B-DFlash-b16 in its own form: block_size on top, RoPE as in transformers 4.
PUBLISHED: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
    "block_size": 16,
    "bos_token_id": 151643,
    "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
    "dtype": "bfloat16",
    "eos_token_id": 151645,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 12288,
    "layer_types": ["full_attention"] * 5,
    "max_position_embeddings": 40960,
    "max_window_layers": 5,
    "model_type": "qwen3",
    "num_attention_heads": 32,
    "num_hidden_layers": 5,
    "num_key_value_heads": 8,
    "num_target_layers": 36,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "transformers_version": "4.57.3",
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
EXPECTED = DFlashConfig(
    hidden_size=4096,
    intermediate_size=12288,
    num_hidden_layers=5,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    vocab_size=151936,
    rms_norm_eps=1e-6,
    rope_theta=1e6,
    block_size=16,
    mask_token_id=151669,
    target_layer_ids=(1, 9, 17, 25, 33),
    num_target_layers=36,
)


def written(folder: Path, config: Any) -> Path:
    file = folder / "config.json"
    file.write_text(json.dumps(config))
    return file


def without(*keys: str) -> dict[str, Any]:
    return {key: value for key, value in PUBLISHED.items() if key not in keys}


def test_block_size_on_top_is_read(tmp_path: Path) -> None:
    assert read_config(written(tmp_path, PUBLISHED)) == EXPECTED


def test_block_size_inside_dflash_config_is_read(tmp_path: Path) -> None:
    inner = {**PUBLISHED["dflash_config"], "block_size": 16}
    newer = {**without("block_size", "rope_theta", "rope_scaling"), "dflash_config": inner}
    newer["rope_parameters"] = {"rope_theta": 1000000, "rope_type": "default"}
    assert read_config(written(tmp_path, newer)) == EXPECTED


def test_taps_and_mask_on_top_are_read(tmp_path: Path) -> None:
    flat = {**without("dflash_config"), **PUBLISHED["dflash_config"]}
    assert read_config(written(tmp_path, flat)) == EXPECTED


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    assert read_config(written(tmp_path, to_json(EXPECTED, "bfloat16"))) == EXPECTED


def test_a_checkpoint_may_not_tell_the_depth_of_its_target(tmp_path: Path) -> None:
    config = read_config(written(tmp_path, without("num_target_layers")))
    assert config.num_target_layers is None


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("architectures", ["DFlash3DraftModel"], "only ['DFlashDraftModel'] and"),
        ("speculators_model_type", "eagle3", "only 'dflash'"),
        ("model_type", "llama", "only 'qwen3'"),
        ("rope_scaling", {"rope_type": "dynamic", "factor": 4.0}, "only rope_type default, linear"),
        ("rope_scaling", {"rope_type": "linear", "beta_fast": 4.0}, "linear RoPE has no beta_fast"),
        ("rope_scaling", {"factor": 4.0}, "default RoPE has no factor"),
        ("layer_types", ["chunked_attention"] * 5, "5 of full_attention and sliding_attention"),
        ("layer_types", ["full_attention"] * 4, "5 of full_attention and sliding_attention"),
        ("is_causal", 1, "true or false"),
        ("attention_bias", True, "only False"),
        ("hidden_act", "gelu", "only 'silu'"),
        ("final_logit_softcapping", -30.0, "a positive number"),
        ("input_embedding_scale", "53", "a positive number"),
        ("fancy_gate", True, "this key is unknown"),
        ("hidden_size", "4096", "an integer of at least 1"),
        ("head_dim", None, "an integer of at least 1"),
        ("block_size", 1, "an integer of at least 2"),
        ("rms_norm_eps", 0, "a positive number"),
        ("dflash_config", [1], "an object is needed"),
    ],
)
def test_keys_that_are_not_honoured_are_refused(
    tmp_path: Path, key: str, value: Any, reason: str
) -> None:
    file = written(tmp_path, {**PUBLISHED, key: value})
    with pytest.raises(ConfigError) as caught:
        read_config(file)
    for part in (str(file), key, reason, "absent" if value is None else json.dumps(value)):
        assert part in caught.value.message


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("selector_rank", 256, "DFlash2"),
        ("causal", "yes", "true or false"),
        ("use_swa", 2048, "true or false"),
        ("output_multiplier", 0, "a positive number"),
        ("noise", "salt", "'mask' is needed"),
        ("noise", "gaussian", "noise_scale is absent"),
        ("noise_scale", 0.1, "noise is not 'gaussian'"),
        ("fancy_gate", True, "this key is unknown"),
        ("block_size", 8, "dflash_config says 8"),
        ("target_layer_ids", [], "a list of layer numbers"),
        ("target_layer_ids", [1, -1], "a list of layer numbers"),
        ("mask_token_id", None, "an integer of at least 0"),
    ],
)
def test_the_inside_of_dflash_config_is_as_strict(
    tmp_path: Path, key: str, value: Any, reason: str
) -> None:
    inner = {**PUBLISHED["dflash_config"], key: value}
    file = written(tmp_path, {**PUBLISHED, "dflash_config": inner})
    with pytest.raises(ConfigError) as caught:
        read_config(file)
    for part in (str(file), key, reason):
        assert part in caught.value.message


def read(folder: Path, **changes: Any) -> DFlashConfig:
    """Read the published configuration with `changes`; those of `dflash_config` are added to its own."""
    inner = {**PUBLISHED["dflash_config"], **changes.pop("dflash_config", {})}
    return read_config(written(folder, {**PUBLISHED, "dflash_config": inner, **changes}))


SLIDING = ["sliding_attention"] * 4 + ["full_attention"]
WINDOW: dict[str, Any] = {
    "layer_types": SLIDING,
    "use_sliding_window": True,
    "sliding_window": 2048,
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ()),
        ({"is_causal": False}, ()),
        ({"is_causal": True}, (LayerAttention(causal=True),) * 5),
        ({"dflash_config": {"causal": True}}, (LayerAttention(causal=True),) * 5),
        ({"is_causal": False, "dflash_config": {"causal": True}}, ()),
        (WINDOW, (LayerAttention(2048, causal=True),) * 4 + (LayerAttention(),)),
        ({**WINDOW, "is_causal": False}, (LayerAttention(2048),) * 4 + (LayerAttention(),)),
        (
            {"dflash_config": {"use_swa": True, "swa_window_size": 64}},
            (LayerAttention(64, causal=False),) * 5,
        ),
        (
            {"sliding_window": 32, "dflash_config": {"use_swa": True, "causal": True}},
            (LayerAttention(32, causal=True),) * 5,
        ),
    ],
)
def test_each_layer_has_the_window_and_the_direction_that_is_said(
    tmp_path: Path, changes: dict[str, Any], expected: tuple[LayerAttention, ...]
) -> None:
    config = read(tmp_path, **changes)
    assert config.attention == expected
    assert read_config(written(tmp_path, to_json(config, "bfloat16"))) == config


def test_sliding_layers_need_a_window_in_use(tmp_path: Path) -> None:
    for switch in (False, None):
        with pytest.raises(ConfigError, match="use_sliding_window"):
            read(tmp_path, **{**WINDOW, "use_sliding_window": switch})
    with pytest.raises(ConfigError, match=r"sliding_window is absent"):
        read(tmp_path, **{**WINDOW, "sliding_window": None})
    with pytest.raises(ConfigError, match="layer_types is absent"):
        read(tmp_path, layer_types=None, use_sliding_window=True)


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "linear", "factor": 2.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    ],
)
def test_scaled_rope_is_read_in_both_forms(tmp_path: Path, scaling: dict[str, Any]) -> None:
    older = read(tmp_path, rope_scaling=scaling)
    assert older.rope_parameters == {"rope_theta": 1e6, **scaling}
    assert older.max_position_embeddings == 40960
    newer = {**without("rope_theta", "rope_scaling")}
    newer["rope_parameters"] = {"rope_theta": 1000000, **scaling}
    assert read_config(written(tmp_path, newer)) == older
    assert read_config(written(tmp_path, to_json(older, "bfloat16"))) == older
    with pytest.raises(ConfigError, match="max_position_embeddings is absent"):
        read(tmp_path, rope_scaling=scaling, max_position_embeddings=None)
    other = {"rope_type": "linear", "factor": 3.0}
    with pytest.raises(ConfigError, match="rope_parameters says"):
        read(tmp_path, rope_scaling=scaling, rope_parameters=other)


# What z-lab/Qwen3.8-27B-DFlash2 adds to the form above.
SECOND: dict[str, Any] = {
    "block_size": 16,
    "conv_group_size": 16,
    "conv_kernel_size": 2,
    "selector_rank": 256,
    "selector_top_k": 16,
}


def test_dflash2_is_read(tmp_path: Path) -> None:
    scales = {"output_multiplier": 0.5, "input_embedding_scale": 53, "final_logit_softcapping": 30}
    config = read(tmp_path, architectures=["DFlash2DraftModel"], dflash_config={**SECOND, **scales})
    assert config.second == SecondShape(2, 16, 256, 16)
    assert (config.output_multiplier, config.input_embedding_scale) == (0.5, 53.0)
    assert config.final_logit_softcapping == 30.0
    assert read_config(written(tmp_path, to_json(config, "bfloat16"))) == config


def test_dflash2_must_say_all_of_its_sizes(tmp_path: Path) -> None:
    for key in ("conv_group_size", "selector_top_k"):
        part = {name: value for name, value in SECOND.items() if name != key}
        with pytest.raises(ConfigError, match=f"{key} is absent"):
            read(tmp_path, architectures=["DFlash2DraftModel"], dflash_config=part)
    odd = {**SECOND, "conv_group_size": 17}
    with pytest.raises(ConfigError, match="does not divide hidden_size"):
        read(tmp_path, architectures=["DFlash2DraftModel"], dflash_config=odd)


def test_a_softcap_of_zero_is_none(tmp_path: Path) -> None:
    assert read(tmp_path, final_logit_softcapping=0).final_logit_softcapping is None


def test_gaussian_noise_is_told(tmp_path: Path) -> None:
    config = read(tmp_path, dflash_config={"noise": "gaussian", "noise_scale": 0.11})
    assert config.noise_scale == 0.11
    assert read_config(written(tmp_path, to_json(config, "bfloat16"))) == config
    assert read(tmp_path, dflash_config={"noise": "mask"}) == EXPECTED


def test_rope_must_be_said_once_or_alike(tmp_path: Path) -> None:
    twice = {**PUBLISHED, "rope_parameters": {"rope_type": "default", "rope_theta": 10000}}
    with pytest.raises(ConfigError, match="rope_theta is said twice"):
        read_config(written(tmp_path, twice))
    with pytest.raises(ConfigError, match="rope_theta is absent"):
        read_config(written(tmp_path, without("rope_theta")))


@pytest.mark.parametrize(("text", "match"), [("{", "not valid JSON"), ("[]", "no JSON object")])
def test_a_broken_file_is_named(tmp_path: Path, text: str, match: str) -> None:
    file = tmp_path / "config.json"
    with pytest.raises(ConfigError, match="does not exist"):
        read_config(file)
    file.write_text(text)
    with pytest.raises(ConfigError, match=match):
        read_config(file)
