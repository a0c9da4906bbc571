"""What a model's own files say that a loop must be told, or must not miss."""

import json
from pathlib import Path
from typing import Any

from dflash_bench.errors import ConfigError, did_you_mean

# What `dflash_config` may say: all that the authors' code reads. Another key changes what a drafter starts from.
DFLASH_KEYS = {
    *("block_size", "mask_token_id", "target_layer_ids"),
    *("input_embedding_scale", "output_multiplier", "final_logit_softcapping"),
    *("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"),
}


def check_drafter(arm: str, folder: Path) -> None:
    """Refuse a DFlash drafter that says something of itself which the authors' code does not read."""
    config = _config(folder / "config.json")
    unknown = set(config.get("dflash_config", {})) - DFLASH_KEYS
    if unknown:
        raise ConfigError(
            f"arms.{arm}.draft: {folder / 'config.json'} has dflash_config.{min(unknown)}, which this backend would not"
            f" heed. {did_you_mean(min(unknown), DFLASH_KEYS)}",
            remedy="Use runner reference for it, or another drafter.",
        )


def eos_ids(folder: Path) -> frozenset[int]:
    """Return the tokens that end a text: the generation configuration's, or else the model's own."""
    for name in ("generation_config.json", "config.json"):
        ids = _config(folder / name).get("eos_token_id")
        if ids is not None:
            return frozenset([ids] if isinstance(ids, int) else ids)
    return frozenset()


def _config(path: Path) -> dict[str, Any]:
    """Read a model's JSON; a missing file is an empty one."""
    if not path.is_file():
        return {}
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return config
