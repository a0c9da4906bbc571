"""DFlash checkpoints on disk: the round trip, and every tensor accounted for by name."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from dflash_bench.engine.methods.dflash_checkpoint import build, check_fit, load, save
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.errors import ConfigError
from tests.unit.engine.methods.tiny_dflash import KINDS, build_network
from tests.unit.engine.tiny import build_target, dflash_config

CONFIG = dflash_config()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    save(DFlashModel(CONFIG), CONFIG, tmp_path / "draft")
    return tmp_path / "draft"


def test_what_is_saved_is_loaded(folder: Path) -> None:
    torch.manual_seed(0)
    expected = DFlashModel(CONFIG).state_dict()
    model = load(folder)
    assert model.config == CONFIG
    assert not model.training
    assert model.state_dict().keys() == expected.keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, expected[name])


def test_tensors_are_named_as_in_published_checkpoints(folder: Path) -> None:
    layer = ["input_layernorm", "post_attention_layernorm"]
    layer += [f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj")]
    layer += [f"self_attn.{name}" for name in ("q_norm", "k_norm")]
    layer += [f"mlp.{name}" for name in ("gate_proj", "up_proj", "down_proj")]
    names = [
        "fc",
        "hidden_norm",
        "norm",
        *(f"layers.{i}.{name}" for i in range(2) for name in layer),
    ]
    tensors = load_file(folder / "model.safetensors")
    assert set(tensors) == {f"{name}.weight" for name in names}
    assert tensors["fc.weight"].shape == (32, 3 * 32)


@pytest.mark.parametrize("kind", ["sliding", "yarn", "scaled", "second"])
def test_every_kind_of_network_goes_through_its_file(tmp_path: Path, kind: str) -> None:
    network = build_network(**KINDS[kind])
    save(network, network.config, tmp_path)
    model = load(tmp_path)
    assert model.config == network.config
    for name, tensor in network.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor)


@pytest.mark.parametrize("kind", ["both-ways", "own-head", "from-anchor"])
def test_what_the_published_form_cannot_say_is_not_written(tmp_path: Path, kind: str) -> None:
    network = build_network(**KINDS[kind])
    with pytest.raises(ValueError, match="form"):
        save(network, network.config, tmp_path)


def test_what_dflash2_adds_is_named_as_published(tmp_path: Path) -> None:
    network = build_network(**KINDS["second"])
    save(network, network.config, tmp_path)
    plain = build_network().state_dict()
    added = {
        name: list(tensor.shape)
        for name, tensor in load_file(tmp_path / "model.safetensors").items()
        if name not in plain
    }
    assert added == {
        "candidate_selector.hidden_projection.weight": [6, 32],
        "candidate_selector.predecessor_codebook": [64, 6],
        "candidate_selector.successor_codebook": [64, 6],
        **{
            f"layers.{i}.{around}.{name}": shape
            for i in range(2)
            for around in ("attention_conv", "mlp_conv")
            for name, shape in (
                ("base_kernel", [2, 2, 32]),
                ("kernel_projection.weight", [16, 32]),
            )
        },
    }


def test_a_gaussian_drafter_has_one_tensor_more(tmp_path: Path) -> None:
    network = build_network(noise_scale=0.1)
    save(network, network.config, tmp_path)
    model = load(tmp_path)
    assert model.config.noise_scale == 0.1
    assert model.noise_level.weight.shape == (32, 2)
    inner = json.loads((tmp_path / "config.json").read_text())["dflash_config"]
    assert (inner["noise"], inner["noise_scale"]) == ("gaussian", 0.1)


def test_drafters_of_one_checkpoint_share_its_weights(folder: Path) -> None:
    target, loaded = build_target(), dict[object, Any]()
    first = build(target, {"draft": folder}, loaded)
    second = build(target, {"draft": str(folder), "block_size": 4, "verify_length": 3}, loaded)
    assert (first.block_size, second.block_size) == (8, 3)
    assert first._network is second._network
    assert list(loaded) == [("dflash", folder)]


def test_weights_are_stored_and_loaded_in_the_dtype_asked(folder: Path) -> None:
    save(load(folder, dtype=torch.bfloat16), CONFIG, folder)
    assert json.loads((folder / "config.json").read_text())["dtype"] == "bfloat16"
    assert load_file(folder / "model.safetensors")["fc.weight"].dtype == torch.bfloat16
    assert load(folder).fc.weight.dtype == torch.float32


def test_shards_are_read_through_their_index(folder: Path) -> None:
    file = folder / "model.safetensors"
    whole = load_file(file)
    names = sorted(whole)
    shards = {"a.safetensors": names[:9], "b.safetensors": names[9:]}
    for shard, members in shards.items():
        save_file({name: whole[name] for name in members}, folder / shard)
    index = {name: shard for shard, members in shards.items() for name in members}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    file.unlink()
    assert torch.equal(load(folder).fc.weight, whole["fc.weight"])
    (folder / "b.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"b\.safetensors does not exist"):
        load(folder)


@pytest.mark.parametrize("index", ["{", "[]", '{"weight_map": {"fc.weight": "../x.safetensors"}}'])
def test_an_index_may_only_name_files_of_its_folder(folder: Path, index: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(index)
    with pytest.raises(ConfigError, match=r"model\.safetensors\.index\.json"):
        load(folder)


def test_tensors_that_do_not_fit_are_named(folder: Path) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    tensors["lm_head.weight"] = tensors.pop("norm.weight")
    tensors["fc.weight"] = torch.zeros(32, 64)
    save_file(tensors, file)
    with pytest.raises(ConfigError) as caught:
        load(folder)
    for fault in (
        "norm.weight is missing",
        "lm_head.weight is unexpected",
        "fc.weight has shape [32, 64], expected [32, 96]",
    ):
        assert fault in caught.value.message


def test_weights_that_are_absent_or_cut_are_named(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(ConfigError, match="no readable safetensors"):
        load(folder)
    file.unlink()
    with pytest.raises(ConfigError, match=r"model\.safetensors does not exist"):
        load(folder)


@dataclass(frozen=True)
class Shape:
    hidden_size: int = 32
    vocab_size: int = 64
    num_layers: int = 4


def test_a_drafter_fits_the_target_it_was_made_for() -> None:
    check_fit(CONFIG, Shape())
    check_fit(dflash_config(num_target_layers=None), Shape())


@pytest.mark.parametrize(
    ("shape", "fault"),
    [
        (Shape(hidden_size=48), "hidden_size 32 expected, 48 found"),
        (Shape(vocab_size=65), "vocab_size 64 expected, 65 found"),
        (Shape(num_layers=5), "num_target_layers 4 expected, 5 found"),
        (Shape(num_layers=2), "target_layer_ids 2 expected, 0..1 found"),
        (Shape(vocab_size=3), "mask_token_id 3 expected, 0..2 found"),
    ],
)
def test_a_drafter_of_another_target_is_refused(shape: Shape, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_fit(CONFIG, shape)
    assert fault in caught.value.message
