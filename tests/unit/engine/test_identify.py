"""A checkpoint's config.json tells which method reads it."""

import json
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.engine.identify import identify
from dflash_bench.errors import ConfigError


@pytest.mark.parametrize(
    ("config", "method", "form"),
    [
        ({"architectures": ["DFlashDraftModel"]}, "dflash", "z-lab DFlash"),
        ({"architectures": ["DFlash2DraftModel"]}, "dflash", "z-lab DFlash2"),
        ({"speculators_model_type": "dflash"}, "dflash", "speculators"),
        ({"speculators_model_type": "eagle3", "draft_vocab_size": 9}, "eagle3", "speculators"),
        ({"architectures": ["LlamaForCausalLMEagle3"]}, "eagle3", "SafeAILab EAGLE-3"),
        ({"medusa_num_heads": 4}, "medusa", "Medusa"),
        ({"model_type": "medusa", "num_heads": 4}, "medusa", "vLLM Medusa"),
        ({"architectures": ["Qwen3ForCausalLM"]}, "draft_model", "Hugging Face causal LM"),
    ],
)
def test_every_format_is_told(
    tmp_path: Path, config: dict[str, Any], method: str, form: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert identify(tmp_path) == (method, form)


@pytest.mark.parametrize(
    "config", [{}, {"speculators_model_type": "peagle"}, {"architectures": ["BertModel"]}]
)
def test_what_is_no_drafter_is_refused(tmp_path: Path, config: dict[str, Any]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="names no drafter"):
        identify(tmp_path)
