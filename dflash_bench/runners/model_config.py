"""What a model's own files say that a loop must be told, or must not miss. Here alone its JSON is read.

A drafter says its block size, which counts the anchor as ours does, in `dflash_config` (newer z-lab checkpoints) or on
top (older ones, and `speculators`, whose `sample_from_anchor` drafts one token more: every slot, the anchor's too).
"""

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
ARCHITECTURES = {"DFlashDraftModel", "DFlash2DraftModel"}
_AGAIN = "Download the model again, or name another folder."


def read(folder: Path, name: str = "config.json") -> dict[str, Any]:
    """Return a JSON object of a model's `folder`; a missing file is an empty one.

    Raises ConfigError for a file that cannot be read, is damaged, or holds anything but an object.
    """
    path = folder / name
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", remedy=_AGAIN) from None
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}.", remedy=_AGAIN) from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path} holds {_shown(found)}, not an object.", remedy=_AGAIN)
    return found


def block_size_of(folder: Path) -> int | None:
    """Return the block size, the anchor counted, for which the DFlash drafter in `folder` was trained; None: untold.

    Raises ConfigError for a config.json that is damaged.
    """
    config = read(folder)
    found = _inner(config, folder).get("block_size", config.get("block_size"))
    if isinstance(found, bool) or not isinstance(found, int):
        return None
    return found + (config.get("sample_from_anchor") is True)


def check_block(name: str, block: int | None, folder: Path) -> None:
    """Raise ConfigError where the arm `name` drafts a wider `block` than its DFlash drafter was trained for.

    `folder` is that drafter's. Backends do not refuse it themselves: they draft positions that the drafter never saw.
    """
    trained = block_size_of(folder)
    if trained is not None and block is not None and block > trained:
        raise ConfigError(
            f"arms.{name}.block_size: {block} is above the block size {trained} of {folder}.",
            remedy=f"Take at most {trained}.",
        )


def check_drafter(arm: str, folder: Path) -> None:
    """Refuse what the authors' code would not take for a DFlash drafter, or of which it does not read everything."""
    config, path = read(folder), folder / "config.json"
    named = config.get("architectures")
    if not isinstance(named, list) or not ARCHITECTURES.intersection(map(str, named)):
        raise ConfigError(
            f"arms.{arm}.draft: {path} names architectures {_shown(named)}; a DFlash drafter for this backend names"
            f" {' or '.join(sorted(ARCHITECTURES))}.",
            remedy="Name a drafter in z-lab's format, or use runner reference.",
        )
    if "dflash_config" in config and config["dflash_config"] is None:
        raise ConfigError(
            f"arms.{arm}.draft: {path} has dflash_config null; an object is needed there.",
            remedy=_AGAIN,
        )
    unknown = set(_inner(config, folder)) - DFLASH_KEYS
    if unknown:
        raise ConfigError(
            f"arms.{arm}.draft: {path} has dflash_config.{min(unknown)}, which this backend would not"
            f" heed. {did_you_mean(min(unknown), DFLASH_KEYS)}",
            remedy="Use runner reference for it, or another drafter.",
        )


def eos_ids(folder: Path) -> frozenset[int]:
    """Return the tokens that end a text: the generation configuration's, or else the model's own.

    A model of more than text keeps its own in `text_config`.
    """
    config = read(folder)
    for told in (read(folder, "generation_config.json"), config, text_config(config)):
        ids = told.get("eos_token_id")
        if ids is not None:
            return frozenset([ids] if isinstance(ids, int) else ids)
    return frozenset()


def max_positions(folder: Path) -> int | None:
    """Return `max_position_embeddings` of the config.json in `folder`, None where it does not say."""
    config = read(folder)
    for part in (config, text_config(config)):
        if isinstance(part.get("max_position_embeddings"), int):
            return int(part["max_position_embeddings"])
    return None


def text_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a `config` that is about text, where it has such a part; else an empty one."""
    part = config.get("text_config")
    return part if isinstance(part, dict) else {}


def _inner(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return a drafter's `dflash_config`; absent or null is an empty one."""
    inner = config.get("dflash_config")
    if inner is not None and not isinstance(inner, dict):
        raise ConfigError(
            f"{folder / 'config.json'} has dflash_config {_shown(inner)}; an object is needed there.",
            remedy=_AGAIN,
        )
    return inner or {}


def _shown(value: object) -> str:
    """Return `value` as JSON, the beginning of it where it is long."""
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
