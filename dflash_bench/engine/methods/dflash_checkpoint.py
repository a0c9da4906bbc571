"""DFlash checkpoints on disk: a folder with `config.json` and `model.safetensors`, or its shards.

Loading names every tensor that is missing, unexpected or of the wrong shape; saving writes the same
format, so that a drafter trained here is read by whatever reads the published ones.
"""

from pathlib import Path
from typing import Protocol

import torch

from dflash_bench.engine.methods.checkpoint import CONFIG, check_tensors, read_tensors, write
from dflash_bench.engine.methods.dflash_config import DFlashConfig, read_config, to_json
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.errors import ConfigError


class Fits(Protocol):
    """What of a target a drafter has to fit."""

    @property
    def hidden_size(self) -> int: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def num_layers(self) -> int: ...


def load(
    folder: Path, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> DFlashModel:
    """Read a checkpoint folder into a network ready to draft, its weights cast to `dtype`.

    Raises ConfigError if the folder is no DFlash checkpoint, or one that would be misread.
    """
    config = read_config(folder / CONFIG)
    tensors = read_tensors(folder)
    with torch.device("meta"):  # shapes only: the weights come from the file
        model = DFlashModel(config)
    check_tensors({name: p.shape for name, p in model.state_dict().items()}, tensors, folder)
    model.load_state_dict(tensors, assign=True)
    return model.to(device=device, dtype=dtype).eval().requires_grad_(False)


def save(model: DFlashModel, config: DFlashConfig, folder: Path) -> None:
    """Write `model` and `config` to `folder`, in the dtype that the parameters have."""
    dtype = str(model.fc.weight.dtype).removeprefix("torch.")
    write(folder, to_json(config, dtype), model.state_dict())


def choose_block_size(config: DFlashConfig, asked: int | None) -> int:
    """Return the block size to draft with: the one asked for, or else the one trained.

    A drafter trained at 16 drafts well at 8; the other way round it does not (arXiv:2602.06036).
    Raises ConfigError below 2 (nothing is drafted) and above the checkpoint's (never trained).
    """
    if asked is None:
        return config.block_size
    if not 2 <= asked <= config.block_size:
        raise ConfigError(
            f"block_size {asked} is outside 2..{config.block_size}, the drafter's own block size.",
            remedy=f"Choose from 2 to {config.block_size}; a block size counts the anchor token.",
        )
    return asked


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
