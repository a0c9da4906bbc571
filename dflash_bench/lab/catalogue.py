"""What `target: lab` and `draft: markov` in a config mean: the shipped models by name, and what is not a name.

Imports no torch, so that `dflash-bench list models` and every check of a config stay instant.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from dflash_bench.errors import ConfigError, did_you_mean

MODELS = Path(__file__).with_name("models")
Role = Literal["target", "dflash", "eagle3", "medusa", "draft_model"]


class Model(NamedTuple):
    """A shipped model: `name` and `role` choose it, `folder` has the format that is published for its role."""

    name: str
    role: Role
    folder: Path
    description: str


def models() -> tuple[Model, ...]:
    """Return every shipped model."""
    return (
        Model(
            "lab",
            "target",
            MODELS / "target",
            "Qwen3, 8 layers, 1.7 M parameters: small maths, code and chat",
        ),
        Model("lab", "dflash", MODELS / "dflash", "its DFlash drafter, 2 layers, block 16"),
        Model(
            "lab-gaussian",
            "dflash",
            MODELS / "gaussian",
            "a drafter for it that starts from Gaussian noise instead of masks",
        ),
        Model("lab", "eagle3", MODELS / "eagle3", "its EAGLE-3 drafter, 1 layer, for 512 tokens"),
        Model("lab", "medusa", MODELS / "medusa", "its Medusa heads, 4 of one layer"),
        Model("lab", "draft_model", MODELS / "draft-model", "a Qwen3 of 2 layers that imitates it"),
        Model(
            "markov",
            "target",
            MODELS / "markov-target",
            "always a, b, c, d, a, ...: no training, exactly known",
        ),
        Model(
            "markov",
            "dflash",
            MODELS / "markov-dflash",
            "always drafts c: accepted per step 0, 0, 1, 0, 0, 1, ...",
        ),
    )


def resolve(name: str, role: Role) -> str | Path:
    """Return where the model is that a config names: a folder, or a hub id as it stands.

    `lab` is ours. An existing folder, or a value that looks like a path (starts with `.`, `~` or a separator, has a
    backslash or several separators), is a path. Anything else with one slash is a hub id. Raises ConfigError otherwise.
    """
    ours = {model.name: model for model in models() if model.role == role}
    if name in ours:
        return ours[name].folder
    path = Path(name).expanduser()
    what = "draft model" if role == "draft_model" else f"{role} model"
    if path.is_dir():
        return path
    if looks_like_path(name):
        raise ConfigError(
            f"{what} '{name}' is not a folder.",
            remedy="Name an existing folder, a model of ours or a hub id.",
        )
    if name.count("/") == 1:
        return name
    raise ConfigError(f"There is no {what} named '{name}'.", remedy=did_you_mean(name, ours))


def looks_like_path(name: str) -> bool:
    """Tell a path from a hub id (`owner/name`): by how it starts and by the number of its separators."""
    return name.startswith((".", "~", "/")) or "\\" in name or name.count("/") > 1
