"""A checkpoint is told for what it is, and what would silently cost acceptance is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.engine.describe import QWEN3_600M, evenly_spaced
from dflash_bench.engine.inspection import inspect
from dflash_bench.engine.methods.dflash_checkpoint import save
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.errors import ConfigError
from tests.unit.engine.tiny import build_model, dflash_config

MODELS = Path(__file__).parents[3] / "dflash_bench" / "lab" / "models"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A target of 8 layers, so that taps have room."""
    model = build_model()
    model.config.num_hidden_layers = 8
    model.config.layer_types = None
    model.config.save_pretrained(tmp_path / "target")
    return tmp_path / "target"


def checkpoint(folder: Path, **changes: Any) -> Path:
    config = dflash_config(num_target_layers=8, target_layer_ids=(1, 3, 5), **changes)
    save(DFlashModel(config), config, folder)
    return folder


def edit(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_a_drafter_that_fits_raises_no_doubt(tmp_path: Path, target: Path) -> None:
    found = inspect(checkpoint(tmp_path / "draft"), target)
    assert found.identity.method == "dflash"
    assert found.misfits == found.doubts == []
    facts = found.description.facts
    assert facts["block"] == "8, the anchor counted: 7 drafts (num_speculative_tokens 7)"
    assert "1, 3, 5, counted from 0 (hidden_states 2, 4, 6)" in facts["taps"]
    assert facts["output head"] == facts["embeddings"] == "the target's"


def test_sizes_that_do_not_fit_are_misfits(tmp_path: Path, target: Path) -> None:
    (text,) = inspect(checkpoint(tmp_path / "draft", vocab_size=99), target).misfits
    assert "vocab_size 99 expected, 64 found" in text


def test_another_rope_is_a_doubt(tmp_path: Path, target: Path) -> None:
    folder = checkpoint(tmp_path / "draft", rope_theta=1_000_000.0)
    (text,) = inspect(folder, target).doubts
    assert text.startswith(
        "its RoPE is default, base 1,000,000, the target's is default, base 10,000"
    )


@pytest.mark.parametrize(("shift", "said"), [(1, "shifted by +1"), (-1, "shifted by -1")])
def test_taps_beside_the_usual_ones_are_a_doubt(
    tmp_path: Path, target: Path, shift: int, said: str
) -> None:
    folder = checkpoint(tmp_path / "draft")
    usual = evenly_spaced(8, 3)
    edit(folder, dflash_config={"mask_token_id": 3, "target_layer_ids": [t + shift for t in usual]})
    (text,) = inspect(folder, target).doubts
    assert said in text


def test_fewer_positions_than_the_targets_are_a_doubt(tmp_path: Path, target: Path) -> None:
    folder = checkpoint(tmp_path / "draft")
    edit(folder, max_position_embeddings=64)
    (text,) = inspect(folder, target).doubts
    assert text.startswith("it was made for 64 positions, the target has 256")


def test_a_checkpoint_that_would_be_misread_is_refused_by_its_tensor(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "draft")
    edit(folder, num_hidden_layers=3, layer_types=["full_attention"] * 3)
    with pytest.raises(ConfigError, match=r"layers\.2\.\S+ is missing"):
        inspect(folder)


def test_a_draft_model_without_a_tokenizer_is_a_doubt(tmp_path: Path, target: Path) -> None:
    build_model().save_pretrained(tmp_path / "draft")
    (text,) = inspect(tmp_path / "draft", target).doubts
    assert text.startswith("it has no tokenizer.json")


def test_memory_is_counted_from_shapes(tmp_path: Path) -> None:
    memory = inspect(checkpoint(tmp_path / "draft")).description.memory
    config = dflash_config()
    assert memory.parameters == sum(p.numel() for p in DFlashModel(config).parameters())
    assert memory.cached_per_token == 2 * 2 * 2 * 8  # keys and values, layers, heads, width
    assert memory.in_bytes(2)[1] == 2 * memory.cached_per_token


def test_a_target_that_could_not_be_verified_is_refused(tmp_path: Path, target: Path) -> None:
    edit(target, sliding_window=64, use_sliding_window=True)
    with pytest.raises(ConfigError, match="sliding_window is 64: only full attention"):
        inspect(checkpoint(tmp_path / "drafter"), target)


def test_the_yardstick_is_a_model_of_600_million() -> None:
    weights, cached = QWEN3_600M.in_bytes(2)
    assert weights == 2 * 596_049_920  # the number of parameters on the model's page: 0.6B
    assert cached == 114_688


def test_usual_taps_are_the_papers() -> None:
    assert evenly_spaced(36, 5) == (1, 9, 17, 25, 33)  # Qwen3-8B
    assert evenly_spaced(32, 5) == (1, 8, 15, 22, 29)
    assert evenly_spaced(36, 1) == (18,)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("dflash", "dflash"),
        ("gaussian", "dflash"),
        ("eagle3", "eagle3"),
        ("medusa", "medusa"),
        ("draft-model", "draft_model"),
    ],
)
def test_the_shipped_drafters_fit_their_target(name: str, method: str) -> None:
    found = inspect(MODELS / name, MODELS / "target")
    assert found.identity.method == method
    assert found.misfits == found.doubts == []
