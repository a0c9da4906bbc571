"""What a checkpoint is, told by its `config.json`: which method reads it, and in whose format.

format        method       said by
z-lab         dflash       architectures DFlashDraftModel or DFlash2DraftModel
speculators   dflash, ..   speculators_model_type
SafeAILab     eagle3       architectures ...Eagle3, or a draft_vocab_size beside a Llama's shape
Medusa        medusa       medusa_num_heads; vLLM's layout: model_type medusa or num_heads
Hugging Face  draft_model  any other architectures ...ForCausalLM
"""

from pathlib import Path
from typing import Any, NamedTuple

from dflash_bench.engine.methods.checkpoint import CONFIG, read_json
from dflash_bench.errors import ConfigError


class Identity(NamedTuple):
    """The method that reads a checkpoint, and the name of its format."""

    method: str
    format: str


def identify(folder: Path) -> Identity:
    """Tell what the checkpoint in `folder` is; raises ConfigError where nothing tells."""
    raw = read_json(folder / CONFIG)
    kind = raw.get("speculators_model_type")
    if kind in ("dflash", "eagle3"):
        return Identity(kind, "speculators")
    architectures = _names(raw)
    if architectures & {"DFlashDraftModel", "DFlash2DraftModel"}:
        second = "DFlash2DraftModel" in architectures
        return Identity("dflash", "z-lab DFlash2" if second else "z-lab DFlash")
    if any("eagle3" in name.lower() for name in architectures) or "draft_vocab_size" in raw:
        return Identity("eagle3", "SafeAILab EAGLE-3")
    if "medusa_num_heads" in raw:
        return Identity("medusa", "Medusa")
    if raw.get("model_type") == "medusa" or "MedusaModel" in architectures:
        return Identity("medusa", "vLLM Medusa")
    if kind is None and any(name.endswith("ForCausalLM") for name in architectures):
        return Identity("draft_model", "Hugging Face causal LM")
    said = {
        key: raw[key]
        for key in ("architectures", "model_type", "speculators_model_type")
        if key in raw
    }
    raise ConfigError(
        f"{folder / CONFIG}: {said or 'nothing in it'} names no drafter that we read.",
        remedy="Name a DFlash, EAGLE-3 or Medusa checkpoint, or a causal LM of the target's tokenizer.",
    )


def _names(raw: dict[str, Any]) -> set[str]:
    names = raw.get("architectures")
    return {str(name) for name in names} if isinstance(names, list) else set()
