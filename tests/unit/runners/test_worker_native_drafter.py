"""z-lab's drafters in transformers' own network: what is passed on, and what it would leave out."""

import json
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.lab.catalogue import MODELS
from dflash_bench.runners.workers.installed import Refused
from dflash_bench.runners.workers.native_drafter import shape_of

SLIDING: dict[str, Any] = {
    "layer_types": ["sliding_attention", "full_attention"],
    "is_causal": False,
}


def drafter(folder: Path, inner: dict[str, Any] | None = None, **changes: Any) -> Path:
    """Write the lab drafter's config.json with `changes` into `folder`; `inner` are of its dflash_config."""
    config = json.loads((MODELS / "dflash" / "config.json").read_text(encoding="utf-8"))
    config["dflash_config"] |= inner or {}
    (folder / "config.json").write_text(json.dumps(config | changes), encoding="utf-8")
    return folder


def test_a_plain_drafter_is_told_in_transformers_words(tmp_path: Path) -> None:
    shape = shape_of(drafter(tmp_path), 512)
    assert shape["block_size"] == 16
    assert shape["mask_token_id"] == 3
    assert shape["target_layer_ids"] == [1, 3, 5]
    assert shape["rope_parameters"] == {"rope_type": "default", "rope_theta": 10000.0}
    assert shape["max_position_embeddings"] == 512
    assert "sliding_window" not in shape


def test_a_window_is_passed_on_as_far_as_the_class_looks(tmp_path: Path) -> None:
    """Both ways: the authors see distances below the window, transformers up to it."""
    shape = shape_of(drafter(tmp_path, **SLIDING, sliding_window=32), 512)
    assert shape["sliding_window"] == 31
    assert shape["layer_types"] == ["sliding_attention", "full_attention"]


def test_newer_checkpoints_have_the_block_inside(tmp_path: Path) -> None:
    assert shape_of(drafter(tmp_path, {"block_size": 8}), 512)["block_size"] == 8
    neutral = {"output_multiplier": 1.0, "final_logit_softcapping": 0.0}
    assert shape_of(drafter(tmp_path, neutral, rope_scaling=None), 512)["block_size"] == 16


@pytest.mark.parametrize(
    ("inner", "changes", "what"),
    [
        ({"final_logit_softcapping": 30.0}, {}, "final_logit_softcapping 30.0"),
        ({"output_multiplier": 0.5}, {}, "output_multiplier 0.5"),
        ({}, {"input_embedding_scale": 8.0}, "input_embedding_scale 8.0"),
        ({}, {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_scaling"),
        ({}, {"attention_bias": True}, "attention_bias True"),
        ({}, {"is_causal": True}, "is_causal True"),
        ({}, SLIDING | {"sliding_window": 16}, "sliding_window 16 within a block of 16"),
        ({}, SLIDING | {"is_causal": None, "sliding_window": 32}, "causal sliding_attention"),
        ({}, {"architectures": ["DFlash2DraftModel"]}, "DFlash2DraftModel"),
    ],
)
def test_what_the_network_would_leave_out_is_refused(
    tmp_path: Path, inner: dict[str, Any], changes: dict[str, Any], what: str
) -> None:
    with pytest.raises(Refused, match=what) as caught:
        shape_of(drafter(tmp_path, inner, **changes), 512)
    assert "options: {implementation: upstream}" in str(caught.value)
