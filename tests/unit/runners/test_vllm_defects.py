"""What vLLM does to a drafter in silence is known by the drafter's config, and said of no other."""

import json
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.lab.catalogue import resolve
from dflash_bench.runners.vllm_defects import known_defects

EAGLE = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 4]}}


def drafter(folder: Path, config: Any) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("method", "config", "variant", "words"),
    [
        ("dflash", {"num_hidden_layers": 2}, "cpu", "first layer's k_norm"),
        ("dflash", {"num_hidden_layers": 2}, "cuda", None),
        ("dflash", {"num_hidden_layers": 1}, "cpu", None),
        ("eagle3", EAGLE, "cuda", "layers whose input is tapped"),
        ("eagle3", {"eagle_aux_hidden_state_layer_ids": [2, 18, 33]}, "cuda", None),
        ("eagle3", {}, "cuda", None),
        ("medusa", {}, "cpu", "medusa_fc_bias"),
        ("medusa", {"medusa_fc_bias": True}, "cpu", None),
        ("draft_model", {}, "cpu", None),
    ],
)
def test_a_defect_is_said_of_the_drafters_that_have_it(
    tmp_path: Path, method: str, config: dict[str, Any], variant: str, words: str | None
) -> None:
    found = known_defects(method, drafter(tmp_path, config), variant, "0.32.0")
    assert len(found) == (words is not None)
    assert all(words in sentence for sentence in found if words)


def test_our_own_drafters_have_them() -> None:
    for method in ("dflash", "eagle3", "medusa"):
        assert known_defects(method, Path(resolve("lab", method)), "cpu", "0.32.0")


def test_the_shared_norm_is_of_one_build_alone(tmp_path: Path) -> None:
    deep = drafter(tmp_path, {"num_hidden_layers": 2})
    assert known_defects("dflash", deep, "cpu", "0.32.0+cpu")
    assert known_defects("dflash", deep, "cpu", "0.34.0") == []
    assert known_defects("dflash", deep, "cpu", "of my own") == []


def test_a_folder_without_a_config_has_none_that_are_known(tmp_path: Path) -> None:
    assert known_defects("medusa", tmp_path, "cpu", "0.32.0") == []
    assert known_defects("medusa", drafter(tmp_path, [1]), "cpu", "0.32.0") == []
