"""A small recipe as its user would write it, and ways to change it."""

from pathlib import Path
from typing import Any

import yaml

from dflash_bench.runners.recipe import Recipe, load_recipe

SMALL: dict[str, Any] = {
    "name": "small",
    "title": "a server that is not there",
    "kind": "server",
    "targets": "none",
    "methods": {"ar": "live", "dflash": "from source"},
    "install": {
        "python": ">=3.9",
        "variants": {"cpu": {}},
        "version": ["python", "-c", "print('1.2.3')"],
    },
    "start": {
        "command": ["{python}", "-m", "small", "--port", "{port}", "--model", "{target}"],
        "env": {"SMALL_THREADS": 1},
        "variants": {"cpu": {"flags": ["--eager"], "env": {"SMALL_GB": 2}}},
        "dtype": {"float32": ["--dtype", "float32"]},
        "quantization": {"int8": ["--bits", 8]},
        "methods": {
            "ar": [],
            "dflash": [
                "--speculative-config",
                '{"method": "dflash", "model": "{draft}"}',
                ["--draft-tokens", "{num_draft_tokens}"],
            ],
        },
        "matched": {"dflash": ["--no-async"]},
    },
    "health": {"path": "/health"},
    "ask": {"dialect": "openai"},
}


def written(folder: Path, content: dict[str, Any]) -> Path:
    path = folder / f"{content.get('name', 'small')}.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def small(folder: Path, **changes: Any) -> Recipe:
    """Return the small recipe, read from a file in `folder`, with top-level keys changed."""
    return load_recipe(written(folder, {**SMALL, **changes}))
