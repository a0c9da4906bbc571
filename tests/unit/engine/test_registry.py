"""Methods by name."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dflash_bench.engine import registry
from dflash_bench.engine.methods import dflash_checkpoint
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.engine.registry import Method
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


@pytest.mark.parametrize("settings", [{}, {"draft": 3}, {"block_size": "8"}])
def test_dflash_refuses_settings_of_the_wrong_kind(
    settings: dict[str, object], draft: Path
) -> None:
    if "block_size" in settings:
        settings = {**settings, "draft": draft}
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
    monkeypatch.setattr(registry, "_METHODS", registry.methods())
    registry.register("mine", Method(registry.find("ar").builder, "like plain decoding"))
    assert registry.build("mine", build_target(), {}).name == "ar"
    assert registry.methods()["mine"].title == "like plain decoding"
    with pytest.raises(ValueError, match="registered already"):
        registry.register("ar", registry.find("mine"))


def test_methods_are_listed_and_judged_without_torch() -> None:
    code = """
import sys, dflash_bench.engine.registry as r
r.check("dflash", {"draft": "x", "block_size": 8}, "reject")
print(list(r.methods()), "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = ["ar", "dflash", "eagle3", "medusa", "draft_model", "ngram"]
    assert done.stdout.strip() == f"{expected} False"


@pytest.mark.parametrize(
    ("method", "settings", "rule"),
    [
        ("ar", {}, None),
        ("ar", {"draft": None, "block_size": None}, None),
        ("dflash", {"draft": "x", "verify_length": 4, "denoise_steps": 1}, "reject"),
        ("dflash", {"draft": "x", "denoise_steps": 3, "noise": "gaussian"}, "match"),
        ("eagle3", {"draft": "x", "tree": {"top_k": 4, "depth": None}}, "reject"),
        ("medusa", {"draft": "x", "tree": {"top_k": 4, "depth": 3}}, "typical"),
        ("draft_model", {"draft": "x", "block_size": 4}, "reject"),
        ("ngram", {"block_size": 4, "ngram_min": 1, "ngram_max": 3}, "match"),
    ],
)
def test_what_a_method_has_may_be_asked(
    method: str, settings: dict[str, object], rule: str | None
) -> None:
    registry.check(method, settings, rule)


@pytest.mark.parametrize(
    ("method", "settings", "rule", "words", "remedy"),
    [
        ("medsua", {}, None, "no method 'medsua'", "'medusa'"),
        ("dflash", {}, None, "draft: is missing; method 'dflash'", "a folder or a hub id"),
        ("ar", {"block_size": 4}, None, "block_size: method 'ar' has no such", "It has none"),
        ("ngram", {"draft": "lab"}, None, "draft: method 'ngram' has no such", "ngram_max"),
        ("eagle3", {"draft": "x", "denoise_steps": 2}, None, "denoise_steps: method", "tree"),
        (
            "dflash",
            {"draft": "x", "tree": {}},
            None,
            "tree: method 'dflash' drafts no trees",
            "eag",
        ),
        (
            "dflash",
            {"draft": "x"},
            "typical",
            "a rule for medusa, not for 'dflash'",
            "match or rej",
        ),
        ("ngram", {}, "typical", "a rule for medusa, not for 'ngram'", "verify: match, which"),
        ("ngram", {}, "reject", "verify: 'reject' needs drafts", "verify: match"),
        (
            "dflash",
            {"draft": "x", "denoise_steps": 2},
            "reject",
            "denoise_steps 2",
            "verify: match",
        ),
        (
            "dflash",
            {"draft": "x", "noise": "gaussian"},
            "reject",
            "Gaussian noise",
            "verify: match",
        ),
    ],
)
def test_what_a_method_has_not_is_refused_with_a_way_out(
    method: str, settings: dict[str, object], rule: str | None, words: str, remedy: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        registry.check(method, settings, rule)
    assert remedy in caught.value.remedy
