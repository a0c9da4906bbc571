"""Where a model's files are: a folder of the user's, or a repository of the Hugging Face hub."""

from pathlib import Path

from huggingface_hub import snapshot_download

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
        # The download falls back to the hub's cache where there is no network; a listing would not.
        found = Path(snapshot_download(name, allow_patterns=[*_TEXTS, "*.safetensors"]))
        if not any(found.rglob("*.safetensors")):
            found = Path(snapshot_download(name, allow_patterns=[*_TEXTS, *_PICKLES]))
        return found
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InfrastructureError(
            f"There is no folder {name}, and the hub did not give a model of that name: {reason}",
            remedy=f"Download {name} where there is a network, and name its local folder.",
        ) from error
