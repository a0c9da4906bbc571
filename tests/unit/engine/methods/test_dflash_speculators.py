"""DFlash in speculators' form: the taps are one less, and the checkpoint's own head is the one that speaks."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from dflash_bench.engine.methods.dflash_attention import LayerAttention
from dflash_bench.engine.methods.dflash_checkpoint import build, load
from dflash_bench.engine.methods.dflash_config import DFlashConfig, read_config
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.errors import ConfigError
from tests.unit.engine.methods.tiny_dflash import build_network, draft_once, recompute
from tests.unit.engine.tiny import MASK, VOCAB, build_target

# RedHatAI/Qwen3-8B-speculator.dflash, with the keys that the library writes beside.
PUBLISHED: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "aux_hidden_state_layer_ids": [2, 10, 18, 26, 34],
    "block_size": 8,
    "draft_vocab_size": 32000,
    "dtype": "bfloat16",
    "mask_token_id": 151669,
    "sample_from_anchor": False,
    "sliding_window_non_causal": False,
    "speculators_config": {
        "algorithm": "dflash",
        "default_proposal_method": "greedy",
        "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 7}],
        "verifier": {"name_or_path": "Qwen/Qwen3-8B", "architectures": ["Qwen3ForCausalLM"]},
    },
    "speculators_model_type": "dflash",
    "speculators_version": "0.5.0",
    "target_hidden_size": None,
    "transformer_layer_config": {
        "model_type": "qwen3",
        "head_dim": 128,
        "hidden_act": "silu",
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "layer_types": ["full_attention"] * 5,
        "max_position_embeddings": 40960,
        "num_attention_heads": 32,
        "num_hidden_layers": 5,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-06,
        "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
        "vocab_size": 151936,
    },
}


def read(folder: Path, **changes: Any) -> DFlashConfig:
    """Read the published configuration with `changes`; those of the nested one are added to its own."""
    layer = {**PUBLISHED["transformer_layer_config"], **changes.pop("layer", {})}
    file = folder / "config.json"
    file.write_text(json.dumps({**PUBLISHED, "transformer_layer_config": layer, **changes}))
    return read_config(file)


def test_the_published_configuration_is_read(tmp_path: Path) -> None:
    config = read(tmp_path)
    assert config.target_layer_ids == (
        1,
        9,
        17,
        25,
        33,
    )  # what z-lab's checkpoint of the same target says
    assert (config.block_size, config.max_nodes, config.draft_vocab_size) == (8, 8, 32000)
    assert (config.hidden_size, config.num_hidden_layers, config.vocab_size) == (4096, 5, 151936)
    assert (config.mask_token_id, config.rope_theta, config.attention) == (151669, 1e6, ())
    assert read(tmp_path, sample_from_anchor=True).max_nodes == 9


def test_sliding_layers_are_causal_unless_it_is_said(tmp_path: Path) -> None:
    layer = {
        "layer_types": ["sliding_attention"] * 4 + ["full_attention"],
        "use_sliding_window": True,
        "sliding_window": 64,
    }
    full = LayerAttention()
    expected = (LayerAttention(64, causal=True),) * 4 + (full,)
    assert read(tmp_path, layer=layer).attention == expected
    both_ways = read(tmp_path, layer=layer, sliding_window_non_causal=True)
    assert both_ways.attention == (LayerAttention(64),) * 4 + (full,)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"speculators_model_type": "dspark"}, "only 'dflash'"),
        ({"projector_type": "domino"}, "only 'dflash'"),
        ({"shift_label": True}, "only False"),
        ({"fancy_gate": 1}, "fancy_gate is 1: this key is unknown"),
        ({"layer": {"fancy_gate": 1}}, "transformer_layer_config.fancy_gate is 1"),
        ({"layer": {"model_type": "llama"}}, "only 'qwen3'"),
        ({"layer": {"attention_bias": True}}, "only False"),
        ({"layer": {"is_causal": True}}, "sliding_window_non_causal"),
        ({"aux_hidden_state_layer_ids": [0, 3]}, "layer numbers from 1"),
        ({"aux_hidden_state_layer_ids": None}, "layer numbers from 1"),
        ({"target_hidden_size": 2048}, "only the drafter's own, 4096"),
        ({"mask_token_id": None}, "mask_token_id is absent"),
        ({"sample_from_anchor": "yes"}, "true or false"),
        ({"transformer_layer_config": 3}, "an object is needed"),
    ],
)
def test_what_is_another_network_is_refused(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, **changes)
    assert reason in caught.value.message


def write(folder: Path, network: DFlashModel, **changes: Any) -> dict[str, Tensor]:
    """Write a tiny network as speculators would; return its tensors."""
    config = network.config
    layer = {
        key: getattr(config, key)
        for key in (
            *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
            *("num_key_value_heads", "head_dim", "vocab_size", "rms_norm_eps", "rope_theta"),
        )
    }
    raw = {
        **PUBLISHED,
        "aux_hidden_state_layer_ids": [tap + 1 for tap in config.target_layer_ids],
        "draft_vocab_size": config.draft_vocab_size or config.vocab_size,
        "mask_token_id": MASK,
        "sample_from_anchor": config.sample_from_anchor,
        "transformer_layer_config": {"model_type": "qwen3", "hidden_act": "silu", **layer},
        **changes,
    }
    (folder / "config.json").write_text(json.dumps(raw))
    tensors = dict(network.state_dict())
    if "d2t" in tensors:
        tokens = tensors["d2t"] + torch.arange(len(tensors["d2t"]))
        tensors["t2d"] = torch.zeros(config.vocab_size, dtype=torch.bool).index_fill(
            0, tokens, True
        )
    save_file(tensors, folder / "model.safetensors")
    return tensors


OWN = {"own_embeddings": True, "draft_vocab_size": 40}


@pytest.mark.parametrize(
    "changes",
    [OWN, {"draft_vocab_size": 40}, {"own_embeddings": True, "draft_vocab_size": VOCAB}, {},
     {**OWN, "sample_from_anchor": True}],
)  # fmt: skip
def test_a_checkpoint_embeds_and_speaks_with_what_it_carries(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    network = build_network(**changes, num_target_layers=None)
    tensors = write(tmp_path, network)
    model = load(tmp_path)
    assert model.config == network.config
    for name in tensors.keys() - {"t2d"}:
        assert torch.equal(model.state_dict()[name], tensors[name])
    target, text = build_target(), list(range(10, 20))
    drafter = build(target, {"draft": tmp_path}, {})
    drafted = draft_once(drafter, target, text)
    assert drafted == recompute(target, network, text, network.config.max_nodes)


def test_a_reduced_vocabulary_says_only_its_own_tokens(tmp_path: Path) -> None:
    network = build_network(**OWN)
    write(tmp_path, network)
    tokens = set((network.d2t + torch.arange(40)).tolist())
    text = list(range(10, 20))
    own = recompute(build_target(), load(tmp_path), text, 8)
    assert set(own) <= tokens
    # The target's head on the same hidden states would say something else.
    borrowed = DFlashModel(build_network().config).eval().requires_grad_(False)
    borrowed.load_state_dict(
        {k: v for k, v in network.state_dict().items() if k in borrowed.state_dict()}
    )
    assert recompute(build_target(), borrowed, text, 8) != own


def test_what_only_training_needs_is_left_out(tmp_path: Path) -> None:
    tensors = write(tmp_path, build_network(**OWN))
    save_file({**tensors, "verifier_norm.weight": torch.ones(32)}, tmp_path / "model.safetensors")
    assert "verifier_norm.weight" not in load(tmp_path).state_dict()


def test_a_reduced_vocabulary_needs_its_head_and_its_map(tmp_path: Path) -> None:
    tensors = write(tmp_path, build_network(**OWN))
    for name in ("lm_head.weight", "d2t"):
        rest = {key: tensor for key, tensor in tensors.items() if key != name}
        save_file(rest, tmp_path / "model.safetensors")
        with pytest.raises(ConfigError, match=rf"{name} is missing"):
            load(tmp_path)


def test_a_map_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    tensors = write(tmp_path, build_network(**OWN))
    wrong = {**tensors, "t2d": tensors["t2d"].roll(1)}
    save_file(wrong, tmp_path / "model.safetensors")
    with pytest.raises(ConfigError, match="t2d and d2t name different tokens"):
        load(tmp_path)
    save_file({**tensors, "d2t": tensors["d2t"] + VOCAB}, tmp_path / "model.safetensors")
    with pytest.raises(ConfigError, match=r"d2t names token .* are the target's"):
        load(tmp_path)
