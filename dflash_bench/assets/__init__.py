"""Find the declarative files: packaged in a wheel, beside the package in a checkout.

A bare name is ours, a path is yours: `gsm8k` is `workloads/gsm8k.yaml` of this installation, `./mine.yaml` is a file of
the user's. The current folder is never searched for a bare name.
"""

from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


@cache
def folder(kind: str) -> Path:
    """Return the folder that holds the files of `kind` (`runners`, `workloads` or `reports`)."""
    for base in (PACKAGE / "assets", PACKAGE.parent):
        if (base / kind).is_dir():
            return base / kind
    raise FileNotFoundError(f"no {kind}/ folder beside {PACKAGE}: broken installation?")


def asset(kind: str, name: str) -> Path:
    """Return the path of file `name` of `kind`; it need not exist."""
    return folder(kind) / name


def names(kind: str, suffix: str = ".yaml") -> list[str]:
    """Return the bare names that exist in `kind`, sorted: the stems of its files with `suffix`."""
    return sorted(path.stem for path in folder(kind).glob(f"*{suffix}"))


def is_path(value: str) -> bool:
    """Tell whether `value` is the user's path rather than a bare name of ours."""
    file_types = {".yaml", ".yml", ".json", ".jsonl", ".gz"}
    return "/" in value or "\\" in value or Path(value).suffix in file_types
