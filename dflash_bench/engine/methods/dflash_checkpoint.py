"""DFlash checkpoints on disk: a folder with `config.json` and `model.safetensors`, or its shards.

Loading names every tensor that is missing, unexpected or of the wrong shape; saving writes the same
format, so that a drafter trained here is read by whatever reads the published ones. One tensor is
ours alone: `noise_level.weight` [H, 2] of a drafter that was trained on Gaussian noise.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from dflash_bench.engine.hub import local_folder
from dflash_bench.engine.methods import dflash_speculators
from dflash_bench.engine.methods.checkpoint import CONFIG, Fits, check_tensors, read_tensors, write
from dflash_bench.engine.methods.dflash import DFlashDrafter
from dflash_bench.engine.methods.dflash_config import DFlashConfig, read_config, to_json
from dflash_bench.engine.methods.dflash_lean import LeanDFlash
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.engine.methods.dflash_settings import DFlashSettings
from dflash_bench.engine.target import Target
from dflash_bench.errors import ConfigError


def build(
    target: Target, settings: Mapping[str, object], loaded: dict[object, Any]
) -> DFlashDrafter:
    """Build the drafter of an arm; drafters of one checkpoint share its weights through `loaded`.

    Raises ConfigError for a checkpoint or settings that do not fit the target or each other.
    """
    draft = settings.get("draft")
    if not isinstance(draft, str | Path):
        raise ConfigError(
            f"Method 'dflash' needs a drafter, but draft is {draft!r}.",
            remedy="Set draft: to a folder or hub id.",
        )
    folder = local_folder(draft)
    config = read_config(folder / CONFIG)
    check_fit(config, target)
    asked = DFlashSettings.of(settings, config)
    if ("dflash", folder) not in loaded:
        model = load(folder, dtype=target.dtype, device=target.device)
        loaded["dflash", folder] = LeanDFlash(model)
    return DFlashDrafter(
        loaded["dflash", folder],
        target,
        asked.block_size,
        verify_length=asked.verify_length,
        denoise_steps=asked.denoise_steps,
        noise_schedule=asked.noise_schedule,
    )


def load(
    folder: Path, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> DFlashModel:
    """Read a checkpoint folder into a network ready to draft, its weights cast to `dtype`.

    Raises ConfigError if the folder is no DFlash checkpoint, or one that would be misread.
    """
    config = read_config(folder / CONFIG)
    tensors = read_tensors(folder)
    if config.draft_vocab_size is not None:  # speculators': whose ends it has, the weights tell
        config, tensors = dflash_speculators.with_tensors(config, tensors, folder)
    with torch.device("meta"):  # shapes only: the weights come from the file
        model = DFlashModel(config)
    shapes = {name: p.shape for name, p in model.state_dict().items()}
    check_tensors(shapes, tensors, folder, indices=("d2t",))
    model.load_state_dict(tensors, assign=True)
    return model.to(device=device, dtype=dtype).eval().requires_grad_(False)


def save(model: DFlashModel, config: DFlashConfig, folder: Path) -> None:
    """Write `model` and `config` to `folder` in z-lab's form, in the dtype that the parameters have."""
    dtype = str(model.fc.weight.dtype).removeprefix("torch.")
    write(folder, to_json(config, dtype), model.state_dict())


def check_fit(config: DFlashConfig, target: Fits) -> None:
    """Refuse a drafter that was made for another target.

    Raises ConfigError with every mismatch found: what the drafter expects, what the target has.
    """
    pairs = (
        ("hidden_size", config.hidden_size, target.hidden_size),
        ("vocab_size", config.vocab_size, target.vocab_size),
        ("num_target_layers", config.num_target_layers, target.num_layers),
    )
    wrong = [
        f"{name} {expected} expected, {found} found"
        for name, expected, found in pairs
        if expected not in (None, found)
    ]
    deepest = max(config.target_layer_ids)
    if deepest >= target.num_layers:
        wrong.append(f"target_layer_ids {deepest} expected, 0..{target.num_layers - 1} found")
    if config.mask_token_id >= target.vocab_size:
        wrong.append(
            f"mask_token_id {config.mask_token_id} expected, 0..{target.vocab_size - 1} found"
        )
    if wrong:
        raise ConfigError(
            f"The DFlash drafter does not fit its target: {'; '.join(wrong)}.",
            remedy="Use the drafter that was trained for this target.",
        )
