"""EAGLE-3 weights in both layouts, the map of the draft vocabulary, and the fit with a target."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from dflash_bench.engine.methods import eagle3_checkpoint as checkpoint
from dflash_bench.engine.methods.eagle3_config import to_json
from dflash_bench.engine.methods.eagle3_model import Eagle3Model
from dflash_bench.errors import ConfigError
from tests.unit.engine.methods.tiny_eagle3 import CONFIG, DRAFTED, TAPS, build_network
from tests.unit.engine.tiny import VOCAB, build_target

LAYER = {
    *(f"midlayer.self_attn.{p}_proj.weight" for p in "qkvo"),
    *(f"midlayer.mlp.{p}_proj.weight" for p in ("gate", "up", "down")),
    *("midlayer.input_layernorm.weight", "midlayer.hidden_norm.weight"),
    "midlayer.post_attention_layernorm.weight",
}


@pytest.fixture
def network() -> Eagle3Model:
    return build_network()


@pytest.fixture
def folder(tmp_path: Path, network: Eagle3Model) -> Path:
    checkpoint.save(network, tmp_path)
    return tmp_path


def same(a: Eagle3Model, b: Eagle3Model) -> bool:
    left, right = a.state_dict(), b.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def change(folder: Path, **tensors: Tensor | None) -> None:
    """Replace tensors of a checkpoint; None takes one away."""
    file = folder / "model.safetensors"
    found = {**load_file(file), **tensors}
    save_file({k: v for k, v in found.items() if v is not None}, file)


def test_the_layout_on_disk_is_safeailabs(folder: Path) -> None:
    found = load_file(folder / "model.safetensors")
    assert found.keys() == {*LAYER, "fc.weight", "norm.weight", "lm_head.weight", "d2t", "t2d"}
    assert found["midlayer.self_attn.q_proj.weight"].shape == (32, 64)
    assert found["midlayer.self_attn.v_proj.weight"].shape == (16, 64)
    assert found["midlayer.mlp.up_proj.weight"].shape == (48, 32)
    assert (found["d2t"] + torch.arange(16)).tolist() == list(DRAFTED)
    assert found["t2d"].nonzero()[:, 0].tolist() == list(DRAFTED)


@pytest.mark.parametrize(
    "network",
    [
        build_network(),
        build_network(attention_bias=True, norm_before_fc=True, fc_norm=True),
        build_network(own_embeddings=True, draft_vocab_size=VOCAB),
    ],
)
def test_what_is_saved_is_loaded_again(tmp_path: Path, network: Eagle3Model) -> None:
    checkpoint.save(network, tmp_path)
    loaded = checkpoint.load(tmp_path)
    assert loaded.config == network.config
    assert same(loaded, network)


def test_a_cast_of_the_weights_leaves_the_map_and_the_angles(folder: Path) -> None:
    loaded = checkpoint.load(folder, dtype=torch.bfloat16)
    assert loaded.fc.weight.dtype == torch.bfloat16
    assert loaded.d2t.dtype == torch.int64
    positions = torch.tensor([[1001]])
    exact = build_network().rotary(positions)[0].bfloat16()
    assert torch.equal(loaded.rotary(positions)[0], exact)


def test_speculators_layout_with_embeddings_of_its_own(tmp_path: Path) -> None:
    network = build_network(own_embeddings=True)
    checkpoint.save(network, tmp_path)
    found = load_file(tmp_path / "model.safetensors")
    moved = {k.replace("midlayer.", "layers.0."): v for k, v in found.items()}
    moved |= {"verifier_norm.weight": torch.ones(32), "verifier_lm_head.weight": torch.ones(16, 32)}
    save_file(moved, tmp_path / "model.safetensors")
    assert same(checkpoint.load(tmp_path), network)


def test_torchs_own_file_is_read_safely(folder: Path, network: Eagle3Model) -> None:
    weights = folder / "model.safetensors"
    torch.save(load_file(weights), folder / "pytorch_model.bin")
    weights.unlink()
    assert same(checkpoint.load(folder), network)


def test_the_full_vocabulary_needs_no_map(tmp_path: Path) -> None:
    network = build_network(draft_vocab_size=VOCAB)
    checkpoint.save(network, tmp_path)
    change(tmp_path, d2t=None, t2d=None)
    assert torch.equal(checkpoint.load(tmp_path).drafted(), torch.arange(VOCAB))


def test_a_map_of_ids_instead_of_offsets_is_refused(folder: Path) -> None:
    change(folder, d2t=torch.tensor(DRAFTED), t2d=None)
    with pytest.raises(ConfigError, match=r"d2t in .* reaches token 76 of 64.*offset"):
        checkpoint.load(folder)


@pytest.mark.parametrize(
    ("d2t", "t2d", "said"),
    [
        (None, None, "no d2t, but draft_vocab_size is 16 of 64"),
        (torch.zeros(15, dtype=torch.int64), None, r"shape \[15\], expected \[16\]"),
        (-torch.arange(16), None, "several draft tokens the same meaning"),
        (-torch.ones(16, dtype=torch.int64), None, "reaches token -1 of 64"),
        (torch.full((16,), 0.5), None, "is float32, expected integers"),
        (torch.zeros(16, dtype=torch.int64), torch.arange(VOCAB) > 47, "tokens that t2d marks"),
        (torch.zeros(16, dtype=torch.int64), torch.ones(VOCAB, dtype=torch.bool), "t2d marks"),
    ],
)
def test_a_map_without_sense_is_refused(
    folder: Path, d2t: Tensor | None, t2d: Tensor | None, said: str
) -> None:
    change(folder, d2t=d2t, t2d=t2d)
    with pytest.raises(ConfigError, match=said):
        checkpoint.load(folder)


def test_weights_that_do_not_fit_the_config_are_named(folder: Path) -> None:
    change(folder, **{"midlayer.self_attn.k_proj.weight": None, "midlayer.bonus": torch.ones(1)})
    with pytest.raises(
        ConfigError, match=r"k_proj.weight is missing; midlayer.bonus is unexpected"
    ):
        checkpoint.load(folder)


def test_weights_that_would_need_scales_are_named(folder: Path) -> None:
    name = "midlayer.self_attn.o_proj.weight"
    change(folder, **{name: torch.ones(32, 32, dtype=torch.int8)})
    with pytest.raises(ConfigError, match=f"{name} is int8, expected floating point"):
        checkpoint.load(folder)


def test_more_kinds_of_features_than_fc_takes_are_seen(folder: Path) -> None:
    four = replace(CONFIG, taps=(1, 0, 2, 3))
    (folder / "config.json").write_text(json.dumps(to_json(four, "float32")))
    with pytest.raises(ConfigError, match=r"fc.weight has shape \[32, 96\], expected \[32, 128\]"):
        checkpoint.load(folder)


class TestFit:
    def test_the_taps_are_the_configs_or_the_papers(self) -> None:
        target, here = build_target(), Path("drafter")
        assert checkpoint.check_fit(CONFIG, target, here) == TAPS
        assert checkpoint.check_fit(replace(CONFIG, taps=None), target, here) == (1, 1, 0)

    def test_every_mismatch_is_named(self) -> None:
        wrong = replace(CONFIG, vocab_size=65, target_hidden_size=48, taps=(1, 2, 4))
        with pytest.raises(ConfigError) as refused:
            checkpoint.check_fit(wrong, build_target(), Path("drafter"))
        for said in (
            "hidden_size 48 expected, 32 found",
            "vocab_size 65 expected, 64 found",
            "outputs of layers [1, 2, 4] expected, 0..3 found",
        ):
            assert said in str(refused.value)

    def test_a_narrower_drafter_needs_embeddings_of_its_own(self) -> None:
        narrow = replace(CONFIG, hidden_size=16)
        with pytest.raises(ConfigError, match="embeddings of width 16 expected"):
            checkpoint.check_fit(narrow, build_target(), Path("drafter"))
        owned = replace(narrow, own_embeddings=True)
        assert checkpoint.check_fit(owned, build_target(), Path("drafter")) == TAPS
