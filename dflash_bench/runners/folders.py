"""Where the models of a server are, for a server that we start and for one that runs elsewhere already."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

from dflash_bench.errors import ConfigError, InfrastructureError
from dflash_bench.records.machine import sha256_files
from dflash_bench.runners.model_config import max_positions as max_positions


def require(*packages: str) -> None:
    """Raise ConfigError with the command that installs what is missing here, beside dflash-bench."""
    for package in packages:
        if find_spec(package) is None:
            raise ConfigError(
                f"Runners of backends need {package} beside dflash-bench, and it is not installed.",
                remedy="Install it with: pip install 'dflash-bench[servers]'",
            )


def draft_folder(method: str, draft: str) -> Path:
    """Return the folder of a drafter: one of ours by name, the user's own, or the hub's."""
    from dflash_bench.lab.catalogue import Role, resolve

    roles: dict[str, Role] = {role: role for role in get_args(Role)}
    role = roles.get(method)
    return model_folder(resolve(draft, role) if role else draft, weights=True)


def model_folder(place: str | Path, weights: bool) -> Path:
    """Return the folder of a model; of one on the hub without its `weights` where another machine has these."""
    from dflash_bench.engine.hub import local_folder

    if weights or Path(place).is_dir():
        return local_folder(place)
    from huggingface_hub import snapshot_download

    texts = ["*.json", "*.txt", "*.jinja", "*.model", "*.tiktoken"]
    try:
        return Path(snapshot_download(str(place), allow_patterns=texts))
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InfrastructureError(
            f"target: there is no folder {place}, and the hub did not give a tokenizer of that name: {reason}",
            remedy="Name a local folder with the target's tokenizer and config.json.",
        ) from error


def hashes(folder: Path) -> Mapping[str, str]:
    """Return the sha256 of the files in `folder` that make a model what it is, by name."""
    return sha256_files(
        path
        for path in folder.iterdir()
        if path.suffix in {".json", ".safetensors", ".pt", ".bin", ".gguf"}
    )
