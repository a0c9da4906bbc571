"""Loading a target: what is read, and what is refused by name."""

import json
from fnmatch import fnmatch
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import MistralConfig

from dflash_bench.engine import hub
from dflash_bench.engine.pretrained import refuse_attention
from dflash_bench.engine.target import Target
from dflash_bench.errors import ConfigError, InfrastructureError
from tests.unit.engine.tiny import build_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build_model().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def edit_config(folder: Path, **changes: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_a_saved_model_loads_and_computes_the_same(folder: Path) -> None:
    target = Target.load(folder)
    target.reserve(1, 8)
    expected = build_model().eval()(torch.tensor([[1, 2, 3]])).logits[:, -1:]
    torch.testing.assert_close(target.prefill(0, [1, 2, 3]).logits, expected)


@pytest.mark.parametrize("model_type", ["qwen3_next", "qwen3_5_moe", "jamba", "mamba2"])
def test_recurrent_models_are_refused_since_they_cannot_roll_back(
    folder: Path, model_type: str
) -> None:
    edit_config(folder, model_type=model_type)
    with pytest.raises(ConfigError, match=rf"'{model_type}'.*recurrent state") as caught:
        Target.load(folder)
    assert "llama, mistral" in caught.value.remedy


def test_other_families_are_refused_by_name(folder: Path) -> None:
    edit_config(folder, model_type="gemma3")
    with pytest.raises(ConfigError, match=r"'gemma3'.*not been tested"):
        Target.load(folder)


def test_sliding_window_layers_are_refused(folder: Path) -> None:
    layers = ["full_attention", "sliding_attention", "full_attention", "full_attention"]
    edit_config(folder, layer_types=layers, use_sliding_window=True, sliding_window=8)
    with pytest.raises(ConfigError, match=r"sliding_attention.*cannot be rolled back"):
        Target.load(folder)


def test_a_window_without_layer_types_is_refused_too() -> None:
    config = MistralConfig(sliding_window=4096)
    with pytest.raises(ConfigError, match=r"sliding_window is 4096.*cannot be rolled back"):
        refuse_attention(config, "here")


def test_angles_that_depend_on_the_batch_are_refused(folder: Path) -> None:
    rope = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0}
    edit_config(folder, rope_parameters=rope)
    with pytest.raises(ConfigError, match=r"rope_type 'dynamic'.*neighbours"):
        Target.load(folder)


def test_eager_attention_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"'eager'.*adds a boolean mask"):
        Target.load(folder, attn="eager")


def test_missing_weights_are_named_not_made_up(folder: Path) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"lack model\.layers\.1\.mlp\.up_proj\.weight"):
        Target.load(folder)


@pytest.mark.parametrize("damage", ["absent", "cut", "no config", "bad config"])
def test_a_damaged_folder_is_a_config_error(folder: Path, damage: str) -> None:
    weights, config = folder / "model.safetensors", folder / "config.json"
    if damage == "absent":
        weights.unlink()
    elif damage == "cut":
        weights.write_bytes(weights.read_bytes()[:100])
    elif damage == "no config":
        config.unlink()
    else:
        config.write_text("{")
    with pytest.raises(ConfigError, match=str(folder)):
        Target.load(folder)


def test_a_missing_folder_is_an_infrastructure_error() -> None:
    with pytest.raises(InfrastructureError, match=r"no folder \./absent/model"):
        Target.load("./absent/model")


def test_a_hub_id_without_network_names_the_local_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> str:
        raise OSError("Name or service not known")

    monkeypatch.setattr(hub, "snapshot_download", offline)
    with pytest.raises(InfrastructureError, match="Name or service not known") as caught:
        Target.load("owner/name")
    assert "local folder" in caught.value.remedy


@pytest.mark.parametrize(
    ("files", "pickles"),
    [
        (["config.json", "model.safetensors", "pytorch_model.bin"], False),
        (["medusa_lm_head.pt"], True),
    ],
)
def test_pickles_are_fetched_only_where_there_is_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: list[str], pickles: bool
) -> None:
    def fetch(name: str, allow_patterns: list[str]) -> str:
        for file in files:
            if any(fnmatch(file, pattern) for pattern in allow_patterns):
                (tmp_path / file).touch()
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", fetch)
    assert hub.local_folder("owner/name") == tmp_path
    wanted = files if pickles else [file for file in files if not file.endswith(".bin")]
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(wanted)


def test_a_hub_out_of_reach_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9"
    )  # nobody listens
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(InfrastructureError, match="There is no folder owner/name, and the hub"):
        hub.local_folder("owner/name")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", "wide"),
        ("num_hidden_layers", None),
        ("rope_parameters", {"rope_type": "yarn"}),
        ("rope_parameters", 7),
        ("hidden_act", "unheard of"),
    ],
)
def test_a_value_that_transformers_stumbles_over_is_told_with_the_file(
    folder: Path, key: str, value: object
) -> None:
    edit_config(folder, **{key: value})
    with pytest.raises(ConfigError, match=str(folder)):
        Target.load(folder)
