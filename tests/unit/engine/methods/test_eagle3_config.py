"""EAGLE-3 configurations as they are published, and what is refused in them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.engine.methods.eagle3_config import read_config, to_json
from dflash_bench.errors import ConfigError
from tests.unit.engine.methods.tiny_eagle3 import CONFIG

# As of yuhuili/EAGLE3-LLaMA3.1-Instruct-8B: neither head_dim nor RoPE is said.
SAFEAILAB: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "bos_token_id": 128000,
    "eos_token_id": 128001,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 14336,
    "max_position_embeddings": 2048,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 1,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "transformers_version": "4.28.1",
    "use_cache": True,
    "vocab_size": 128256,
    "draft_vocab_size": 32000,
}
# As of SpecForge's EAGLE-3.1 for Qwen3-30B-A3B and its Llama 3.3 70B, put together.
SPECFORGE: dict[str, Any] = {
    **SAFEAILAB,
    "architectures": ["LlamaForCausalLMEagle3"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 17, 33], "use_aux_hidden_state": True},
    "fc_norm": True,
    "head_dim": 64,
    "max_window_layers": 48,
    "norm_output": True,
    "rope_scaling": {
        "factor": 8.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 4096,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "sliding_window": 512,
    "use_sliding_window": False,
}
# As of RedHatAI's speculators.
SPECULATORS: dict[str, Any] = {
    "architectures": ["Eagle3DraftModel"],
    "auto_map": {"": "config.Eagle3SpeculatorConfig"},
    "base_model_ep_plan": None,
    "draft_vocab_size": 32000,
    "dtype": "float32",
    "eagle_aux_hidden_state_layer_ids": [2, 18, 33],
    "embed_requires_grad": False,
    "has_no_defaults_at_init": False,
    "norm_before_fc": False,
    "norm_before_residual": True,
    "speculators_config": {"algorithm": "eagle3", "verifier": {"name_or_path": "Qwen/Qwen3-8B"}},
    "speculators_model_type": "eagle3",
    "speculators_version": "0.5.0.dev5",
    "target_hidden_size": None,
    "tie_word_embeddings": False,
    "transformer_layer_config": {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "head_dim": 128,
        "hidden_act": "silu",
        "hidden_size": 4096,
        "initializer_range": 0.02,
        "intermediate_size": 12288,
        "max_position_embeddings": 40960,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": 32,
        "num_hidden_layers": 1,
        "num_key_value_heads": 8,
        "pretraining_tp": 1,
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "use_cache": True,
        "vocab_size": 151936,
    },
}


def write(folder: Path, raw: dict[str, Any]) -> Path:
    file = folder / "config.json"
    file.write_text(json.dumps(raw))
    return file


def test_safeailabs_format_with_what_it_leaves_out(tmp_path: Path) -> None:
    config = read_config(write(tmp_path, SAFEAILAB))
    assert (config.hidden_size, config.target_hidden_size, config.head_dim) == (4096, 4096, 128)
    assert (config.vocab_size, config.draft_vocab_size) == (128256, 32000)
    assert config.rope_parameters == {"rope_type": "default", "rope_theta": 10_000.0}
    assert (config.taps, config.num_taps) == (None, 3)
    switches = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
    assert not any(getattr(config, switch) for switch in switches)


def test_specforges_format_with_scaled_rope_and_norms(tmp_path: Path) -> None:
    config = read_config(write(tmp_path, SPECFORGE))
    assert config.head_dim == 64
    assert config.rope_parameters == {**SPECFORGE["rope_scaling"], "rope_theta": 500_000.0}
    assert config.fc_norm
    assert config.norm_output
    assert config.taps == (1, 17, 33)


def test_speculators_format(tmp_path: Path) -> None:
    config = read_config(write(tmp_path, SPECULATORS))
    assert (config.hidden_size, config.vocab_size, config.draft_vocab_size) == (4096, 151936, 32000)
    assert config.norm_before_residual
    assert config.rope_parameters == {"rope_type": "default", "rope_theta": 1_000_000.0}
    assert config.taps == (1, 17, 32)


def test_the_newer_name_of_the_taps(tmp_path: Path) -> None:
    old, new = "eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids"
    config = read_config(write(tmp_path, {**SPECULATORS, old: None, new: [2, 18, 36]}))
    assert config.taps == (1, 17, 35)


@pytest.mark.parametrize(
    ("ids", "taps"),
    [
        ([1, 11, 20], (1, 11, 20)),  # outputs, as SpecForge counts
        ([2, 12, 21], (1, 11, 20)),  # inputs, as vLLM counts
        ([24, 30, 36], (23, 29, 35)),
        ([2, 9, 17, 25, 33], (1, 8, 16, 24, 32)),
        ([], None),
    ],
)
def test_taps_of_the_flat_format_are_outputs_if_they_start_at_1_and_else_inputs(
    tmp_path: Path, ids: list[int], taps: tuple[int, ...] | None
) -> None:
    eagle = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": ids}}
    config = read_config(write(tmp_path, {**SAFEAILAB, **eagle}))
    assert config.taps == taps
    assert config.num_taps == (3 if taps is None else len(taps))


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        replace(CONFIG, taps=(2, 0, 1), norm_before_fc=True, fc_norm=True, norm_output=True),
        replace(CONFIG, taps=None, attention_bias=True, target_hidden_size=48),
        replace(
            CONFIG, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 5000.0}
        ),
    ],
)
def test_what_is_written_is_read_again(tmp_path: Path, config: Any) -> None:
    assert read_config(write(tmp_path, to_json(config, "bfloat16"))) == config


def test_taps_that_every_reader_would_read_otherwise_are_not_written() -> None:
    with pytest.raises(ValueError, match="first tap"):
        to_json(replace(CONFIG, taps=(0, 1, 2)), "bfloat16")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_act": "gelu"}, 'hidden_act is "gelu": only \'silu\''),
        ({"num_hidden_layers": 2}, "num_hidden_layers is 2: only 1"),
        ({"model_type": "qwen3"}, 'model_type is "qwen3": only \'llama\''),
        ({"mlp_bias": True}, "mlp_bias is true: only False"),
        ({"magic": 1}, "magic is 1: this key is unknown"),
        ({"draft_vocab_size": None}, "draft_vocab_size is absent: it marks an EAGLE-3"),
        ({"use_sliding_window": True}, "use_sliding_window is true"),
        ({"sliding_window": 512}, "sliding_window is 512: only full attention"),
        ({"layer_types": ["sliding_attention"]}, "layer_types is .*only full attention"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, 'rope_type is "dynamic"'),
        ({"rope_scaling": {"rope_type": "linear"}}, "factor is absent: a positive number"),
        ({"rope_scaling": {"mrope_section": [16]}}, "mrope_section is .*type default has no such"),
        ({"rope_theta": "many"}, 'rope_theta is "many": a positive number'),
        (
            {"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "rope_parameters": {"factor": 3.0}},
            "rope_parameters is .*rope_scaling says something else",
        ),
        ({"rope_scaling": 2}, "rope_scaling is 2: an object"),
        (
            {"rope_theta": 1e4, "rope_parameters": {"rope_theta": 5e5}},
            "rope_theta is .*said twice, differently",
        ),
        ({"fc_norm": False, "eagle_config": {"fc_norm": True}}, "fc_norm is false: it is said twice"),
        ({"eagle_config": 3}, "eagle_config is 3: an object"),
        ({"eagle_config": {"use_aux_hidden_state": False}}, "use_aux_hidden_state is false"),
        ({"eagle_aux_hidden_state_layer_ids": [0, 3]}, "reaches before the first layer's output"),
        ({"eagle_aux_hidden_state_layer_ids": "1"}, "a list of layer numbers"),
        ({"hidden_size": 0}, "hidden_size is 0: an integer"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps is \"small\": a positive number"),
        ({"fc_norm": "yes"}, 'fc_norm is "yes": true or false'),
        ({"rope_scaling": {"rope_type": ["yarn"]}}, "rope_type is .*only default"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": "x"}}, 'beta_fast is "x"'),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "truncate": 2}}, "truncate is 2: true"),
        ({"head_dim": 7}, "head_dim is 7: RoPE turns pairs"),
        ({"num_attention_heads": 5, "num_key_value_heads": 2}, "num_key_value_heads is 2: 5 heads"),
    ],
)  # fmt: skip
def test_what_is_not_honoured_is_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        read_config(write(tmp_path, {**SAFEAILAB, **changes}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"speculators_model_type": "dflash"}, "speculators_model_type is \"dflash\": only 'eagle3'"),
        ({"norm_before_residual": None}, "norm_before_residual is absent: readers differ"),
        ({"transformer_layer_config": None}, "transformer_layer_config is absent"),
        ({"transformer_layer_config": {**SPECULATORS["transformer_layer_config"], "qk": 1}}, "qk is 1"),
    ],
)  # fmt: skip
def test_what_is_not_honoured_in_speculators_format(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        read_config(write(tmp_path, {**SPECULATORS, **changes}))
