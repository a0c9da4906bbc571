"""Methods by name."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dflash_bench.engine import registry
from dflash_bench.engine.methods import dflash_checkpoint
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.errors import ConfigError
from tests.unit.engine.tiny import build_target, dflash_config


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    dflash_checkpoint.save(DFlashModel(dflash_config()), dflash_config(), tmp_path / "draft")
    return tmp_path / "draft"


def test_ar_needs_no_settings() -> None:
    drafter = registry.build("ar", build_target(), {})
    assert (drafter.name, drafter.block_size, drafter.taps) == ("ar", 1, ())


def test_dflash_takes_the_checkpoint_and_a_block_size(draft: Path) -> None:
    target = build_target()
    assert registry.build("dflash", target, {"draft": draft}).block_size == 8
    assert registry.build("dflash", target, {"draft": str(draft), "block_size": 4}).block_size == 4


@pytest.mark.parametrize("settings", [{}, {"draft": 3}, {"draft": ".", "block_size": "8"}])
def test_dflash_refuses_settings_of_the_wrong_kind(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"draft is|block_size is"):
        registry.build("dflash", build_target(), settings)


def test_a_drafter_of_another_target_is_refused(tmp_path: Path) -> None:
    config = dflash_config(target_layer_ids=(0, 9), num_target_layers=10)
    dflash_checkpoint.save(DFlashModel(config), config, tmp_path)
    with pytest.raises(ConfigError, match="does not fit its target"):
        registry.build("dflash", build_target(), {"draft": tmp_path})


def test_an_unknown_method_is_met_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="'dflahs'") as caught:
        registry.build("dflahs", build_target(), {})
    assert "'dflash'" in caught.value.remedy


def test_the_registry_is_open_but_names_are_unique(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in ("_BUILDERS", "_TITLES"):
        monkeypatch.setattr(registry, table, dict(getattr(registry, table)))
    registry.register("mine", registry._BUILDERS["ar"], "like plain decoding")
    assert registry.build("mine", build_target(), {}).name == "ar"
    assert registry.methods()["mine"] == "like plain decoding"
    with pytest.raises(ValueError, match="registered already"):
        registry.register("ar", registry._BUILDERS["ar"])


def test_methods_can_be_listed_without_torch() -> None:
    code = "import sys, dflash_bench.engine.registry as r; print(list(r.methods()), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['ar', 'dflash'] False"
