"""Runs a server that takes its settings from a file only: JSON words become that file, then this process the server.

    python config_file.py trtllm-serve TARGET --port 1 --merge '{"a": {"b": 1}}' --merge '{"a": {"c": 2}}'

runs `trtllm-serve TARGET --port 1 --config FILE` with {"a": {"b": 1, "c": 2}} in FILE (JSON is YAML). So a recipe says
all of its settings where it says its flags. The file is a temporary one; what is in it is printed, to the log.
"""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
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


def main() -> None:
    """Write the file, then become the server."""
    command, settings = split(sys.argv[1:])
    text = json.dumps(settings, indent=2)
    with tempfile.NamedTemporaryFile("w", prefix="config-", suffix=".yaml", delete=False) as file:
        file.write(text)
    print("$", *command, "--config", file.name, text, flush=True)
    os.execvp(command[0], [*command, "--config", file.name])


if __name__ == "__main__":
    main()
