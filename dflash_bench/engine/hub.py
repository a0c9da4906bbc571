"""Where a model's files are: a folder of the user's, or a repository of the Hugging Face hub."""

from pathlib import Path

from huggingface_hub import list_repo_files, snapshot_download

from dflash_bench.errors import InfrastructureError

_TEXTS = ("*.json", "*.txt", "*.jinja")
_PICKLES = ("pytorch_model.bin", "medusa_lm_head.pt")


def local_folder(path_or_id: str | Path) -> Path:
    """Return the folder that holds the model's files, downloading a hub id such as `Qwen/Qwen3-8B`.

    Only configuration, tokenizer and safetensors files are fetched; torch's own weight files, which
    are pickles, where there is nothing else: they are read by the safe loader alone (`checkpoint`).
    Raises InfrastructureError if there is no such folder, or the hub cannot be asked.
    """
    folder = Path(path_or_id).expanduser()
    if folder.is_dir():
        return folder
    name = str(path_or_id)
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise InfrastructureError(
            f"There is no folder {name}.",
            remedy="Name an existing folder, or a hub id of the form owner/name.",
        )
    try:
        return Path(snapshot_download(name, allow_patterns=_wanted(name)))
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InfrastructureError(
            f"There is no folder {name}, and the hub did not give a model of that name: {reason}",
            remedy=f"Download {name} where there is a network, and name its local folder.",
        ) from error


def _wanted(name: str) -> list[str]:
    """Return the patterns of the files to fetch; without a network, those of what may lie in the cache."""
    try:
        safe = any(file.endswith(".safetensors") for file in list_repo_files(name))
    except OSError:
        safe = True
    return [*_TEXTS, "*.safetensors"] if safe else [*_TEXTS, *_PICKLES]
