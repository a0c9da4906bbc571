"""`config.json`: both published forms are read, and what would be misread is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.engine.methods.dflash_config import DFlashConfig, read_config, to_json
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
        ("architectures", ["DFlash2DraftModel"], "only ['DFlashDraftModel']"),
        ("speculators_model_type", "dflash", "the speculators format"),
        ("model_type", "llama", "only 'qwen3'"),
        ("rope_scaling", {"rope_type": "yarn", "factor": 4.0}, "only plain RoPE"),
        ("rope_parameters", {"rope_type": "llama3", "rope_theta": 1e6}, "only plain RoPE"),
        ("layer_types", ["sliding_attention"] + ["full_attention"] * 4, "only full attention"),
        ("use_sliding_window", True, "only False"),
        ("is_causal", True, "only False"),
        ("attention_bias", True, "only False"),
        ("hidden_act", "gelu", "only 'silu'"),
        ("final_logit_softcapping", 30.0, "only None"),
        ("input_embedding_scale", 53.0, "only 1"),
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
        ("causal", True, "only False"),
        ("use_swa", True, "only False"),
        ("output_multiplier", 0.5, "only 1"),
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
