"""Where a measurement was taken: processor, memory, versions, commit, hashes. Null where it cannot be told."""

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

PACKAGES = ("dflash-bench", "numpy", "pandas", "scipy", "torch", "transformers", "tokenizers")


def machine(threads: int) -> dict[str, Any]:
    """Describe this machine; `threads` is what the run was given."""
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "threads": threads,
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load_average": load_average(),
    }


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of the packages that shape a number; null if not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def load_average() -> tuple[float, float, float] | None:
    """Return the machine's load over 1, 5 and 15 minutes."""
    return os.getloadavg() if hasattr(os, "getloadavg") else None


def git_commit(folder: Path) -> dict[str, Any] | None:
    """Return the commit of the checkout that holds `folder`, and whether its tracked files were changed."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return {"commit": commit, "dirty": bool(_git(folder, "status", "--porcelain", "-uno"))}


def sha256_files(paths: Iterable[Path]) -> dict[str, str]:
    """Return the sha256 of each file, by its name."""
    return {path.name: _sha256(path) for path in sorted(paths)}


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _cpu_name() -> str | None:
    cpuinfo = Path("/proc/cpuinfo")
    if sys.platform == "linux" and cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or None


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
