"""Names, paths and hub ids in `target:` and `draft:`."""

import subprocess
import sys
from pathlib import Path

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.lab import catalogue


@pytest.mark.parametrize("model", catalogue.models(), ids=lambda m: f"{m.name}-{m.role}")
def test_every_model_is_shipped_with_weights_and_card(model: catalogue.Model) -> None:
    assert catalogue.resolve(model.name, model.role) == model.folder
    assert (model.folder / "config.json").is_file()
    weights = "medusa_lm_head.pt" if model.role == "medusa" else "model.safetensors"
    assert (model.folder / weights).is_file()
    assert "says nothing about an 8B model" in (model.folder / "README.md").read_text()


def test_all_weights_together_are_under_15_mb() -> None:
    weights = (f for f in catalogue.MODELS.rglob("*") if f.suffix in {".safetensors", ".pt"})
    assert sum(file.stat().st_size for file in weights) < 15e6


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no target model named 'lob'") as caught:
        catalogue.resolve("lob", "target")
    assert "Did you mean 'lab'?" in caught.value.remedy


def test_one_name_means_another_model_in_another_role() -> None:
    roles = [model.role for model in catalogue.models() if model.name == "lab"]
    assert roles == ["target", "dflash", "eagle3", "medusa", "draft_model"]
    assert len({catalogue.resolve("lab", role) for role in roles}) == 5


def test_a_draft_model_of_no_name_is_refused_as_what_it_is() -> None:
    with pytest.raises(ConfigError, match="There is no draft model named 'labb'"):
        catalogue.resolve("labb", "draft_model")


def test_a_folder_is_a_path(tmp_path: Path) -> None:
    assert catalogue.resolve(str(tmp_path), "dflash") == tmp_path


def test_one_slash_is_a_hub_id() -> None:
    assert catalogue.resolve("Qwen/Qwen3-8B", "target") == "Qwen/Qwen3-8B"


@pytest.mark.parametrize("path", ["./nowhere", "/no/where", "~/nowhere", "a/b/c", ".\\nowhere"])
def test_a_path_that_is_not_there_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="is not a folder"):
        catalogue.resolve(path, "target")


def test_it_imports_no_torch() -> None:
    code = "import sys; from dflash_bench.lab import catalogue; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
