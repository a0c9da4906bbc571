"""Runs a server that takes its settings from a file only: JSON words become that file, then this process the server.

    python config_file.py FOLDER trtllm-serve TARGET --port 1 --merge '{"a": {"b": 1}}' --merge '{"a": {"c": 2}}'

runs `trtllm-serve TARGET --port 1 --config FILE` with {"a": {"b": 1, "c": 2}} in FILE (JSON is YAML). So a recipe says
all of its settings where it says its flags. The file lies in FOLDER and is named after its content, so that starts with
the same settings share one; what is in it is printed, to the log.
"""

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MERGE = "--merge"


def split(words: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the command without its `--merge` words, and these as one object; a later one wins over an earlier."""
    command: list[str] = []
    merged: dict[str, Any] = {}
    remaining = iter(words)
    for word in remaining:
        if word != MERGE:
            command.append(word)
            continue
        part = json.loads(next(remaining, "null"))
        if not isinstance(part, dict):
            raise SystemExit(f"{MERGE} is followed by a JSON object, not by {json.dumps(part)}")
        merged = merge(merged, part)
    return command, merged


def merge(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with `more` laid over it, object by object."""
    both = dict(base)
    for key, value in more.items():
        old = both.get(key)
        both[key] = (
            merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return both


def write(folder: Path, text: str) -> Path:
    """Return the file in `folder` that holds `text`; it is there whole or not at all."""
    file = folder / f"config-{hashlib.sha256(text.encode()).hexdigest()[:16]}.yaml"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f"{file.name}.part-{os.getpid()}")
        part.write_text(text, encoding="utf-8")
        part.replace(file)
    return file


def main() -> None:
    """Write the file, then become the server."""
    command, settings = split(sys.argv[2:])
    text = json.dumps(settings, indent=2)
    words = [*command, "--config", str(write(Path(sys.argv[1]), text))]
    print("$", *words, text, flush=True)
    os.execvp(words[0], words)


if __name__ == "__main__":
    main()
