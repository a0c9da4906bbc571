"""Drafter checkpoints on disk, whatever their method: a `config.json`, and weights read safely.

Weights are safetensors (one file, or shards with their index), or torch's own files, which are
pickles: those go through torch's safe loader alone, which builds tensors and runs nothing.
"""

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from dflash_bench.errors import ConfigError

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
_AGAIN = "Download the checkpoint again."


class Fits(Protocol):
    """What of a target a drafter has to fit."""

    @property
    def hidden_size(self) -> int: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def num_layers(self) -> int: ...


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object; raises ConfigError if the file is absent or holds anything else."""
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"{file} does not exist.", remedy="Name the folder of a drafter's checkpoint."
        ) from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.", remedy=_AGAIN) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not valid JSON: {error}.", remedy=_AGAIN) from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{file} holds no JSON object.", remedy=_AGAIN)
    return raw


def read_tensors(folder: Path, *pickles: str) -> dict[str, Tensor]:
    """Read all weights of a folder, by name.

    Safetensors go first; of the torch files named in `pickles` the first that exists is taken.
    Raises ConfigError for a file that is absent, damaged, or a pickle of more than tensors.
    """
    for name in pickles if not _has_safetensors(folder) else ():
        if (folder / name).is_file():
            return _read_pickle(folder / name)
    tensors: dict[str, Tensor] = {}
    for file in _weight_files(folder):
        try:
            tensors |= load_file(file)
        except FileNotFoundError:
            others = "".join(f", nor does {name}" for name in pickles)
            raise ConfigError(f"{file} does not exist{others}.", remedy=_AGAIN) from None
        except SafetensorError as error:
            raise ConfigError(
                f"{file} is no readable safetensors file: {error}.", remedy=_AGAIN
            ) from None
    return tensors


def check_tensors(
    expected: Mapping[str, torch.Size],
    found: Mapping[str, Tensor],
    folder: Path,
    indices: Collection[str] = (),
) -> None:
    """Raise ConfigError naming every tensor that is missing, unexpected, of another shape or kind.

    All are floating point but `indices`, which hold whole numbers.
    """
    faults = [f"{name} is missing" for name in expected if name not in found]
    faults += [f"{name} is unexpected" for name in found if name not in expected]
    faults += [
        f"{name} has shape {list(found[name].shape)}, expected {list(shape)}"
        for name, shape in expected.items()
        if name in found and found[name].shape != shape
    ]
    faults += [
        f"{name} is {str(found[name].dtype).removeprefix('torch.')}, expected"
        f" {'whole numbers' if name in indices else 'floating point'}"
        for name in expected
        if name in found and found[name].is_floating_point() == (name in indices)
    ]
    if faults:
        more = f" (and {len(faults) - 6} more)" if len(faults) > 6 else ""
        raise ConfigError(
            f"The weights in {folder} do not fit its config.json: {'; '.join(faults[:6])}{more}.",
            remedy="Use the config.json and weights of one and the same checkpoint.",
        )


def write(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a checkpoint folder: `config` as JSON, `tensors` as safetensors in their own dtypes."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(config, indent=2, sort_keys=True)
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    save_file(plain, folder / WEIGHTS, metadata={"format": "pt"})


def _has_safetensors(folder: Path) -> bool:
    return (folder / WEIGHTS).is_file() or (folder / INDEX).is_file()


def _read_pickle(file: Path) -> dict[str, Tensor]:
    try:
        tensors = torch.load(file, map_location="cpu", weights_only=True)
    # The safe loader meets a damaged file with whatever its parser stumbles over.
    except (
        UnpicklingError,
        RuntimeError,
        EOFError,
        ValueError,
        LookupError,
        AttributeError,
    ) as error:
        # Of torch's message only this: the rest says how to load the file unsafely.
        found = re.search(r"Unsupported global: GLOBAL (\S+)", str(error))
        reason = (
            f"it refers to {found[1]}" if found else "it is damaged, or holds more than tensors"
        )
        raise ConfigError(
            f"{file} is refused by torch's safe loader: {reason}.",
            remedy="Convert it to safetensors where it can be trusted; we run no code of a checkpoint.",
        ) from None
    if not isinstance(tensors, dict) or not all(
        isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in tensors.items()
    ):
        raise ConfigError(f"{file} holds no dictionary of named tensors.", remedy=_AGAIN)
    return tensors


def _weight_files(folder: Path) -> list[Path]:
    index = folder / INDEX
    if (folder / WEIGHTS).exists() or not index.exists():
        return [folder / WEIGHTS]
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(f"{index} holds no weight_map of file names.", remedy=_AGAIN) from None
    for name in names:
        if Path(name).name != name:  # a shard lies in the folder; a path would read elsewhere
            raise ConfigError(
                f"{index}: weight_map names {name!r}, which is not a file of this folder.",
                remedy=_AGAIN,
            )
    return [folder / name for name in names]
