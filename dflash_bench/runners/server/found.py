"""A server that runs already: nothing of it is ours, so what a spec may say of it is less, and what it is, is in doubt.

It has one block size, one set of flags, and models under names of its own; nothing of it is started, stopped, flushed
or set. Its key, if it wants one, comes from an environment variable and goes nowhere else.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from dflash_bench.errors import ConfigError
from dflash_bench.plan import PlannedArm
from dflash_bench.runners import launch
from dflash_bench.runners.recipe import Ask, Recipe
from dflash_bench.spec import Spec

API_KEY = "DFLASH_BENCH_API_KEY"
"""The variable whose value is sent to servers at a `base_url` as a bearer token; it is written nowhere."""


def check_addresses(spec: Spec, recipe: Recipe) -> None:
    """Raise ConfigError for an arm without a server, or with one that cannot be what the arm asks for."""
    for name, arm in spec.arms.items():
        url = arm.base_url or spec.base_url
        if url is None and recipe.start is None:
            raise ConfigError(
                f"arms.{name}.base_url: is missing; runner {recipe.name} starts no server.",
                remedy="Give the address of a server that runs as base_url, one per arm; then arms are servers.",
            )
        taken = [key for key in ("flags", "matched", "options") if getattr(arm, key)]
        if url is not None and taken:
            raise ConfigError(
                f"arms.{name}.{taken[0]}: says how a server is started, and {url} runs already.",
                remedy="Remove it and start that server so, or remove base_url.",
            )
        blocks = () if arm.method == "ar" or arm.block_size else spec.sweep.block_size
        if url is not None and len(blocks) > 1:
            raise ConfigError(
                f"sweep.block_size: {list(blocks)}, and arm {name} is one server, {url}, with one block size.",
                remedy="Write an arm for each server, with its own block_size and base_url.",
            )


def headers() -> dict[str, str]:
    """Return what is sent along with everything that such a server is asked."""
    key = os.environ.get(API_KEY)
    return {"Authorization": f"Bearer {key}"} if key else {}


def model_name(spec: Spec, recipe: Recipe, arm: PlannedArm, known: Sequence[str]) -> str:
    """Return the name under which the target is asked for, of those that the server lists, `known`.

    A recipe of ours names it as it starts it; one of the user's names it as the user's server does.
    """
    assert recipe.ask is not None, "Recipe saw to that"
    is_ours = recipe.reference == recipe.name
    if not is_ours and recipe.ask.model != Ask.model_fields["model"].default:
        values = {**launch.arm_values(arm), "target": spec.target, "dtype": spec.dtype}
        return launch.fill_text(recipe.ask.model, values, f"recipe {recipe.reference}: ask.model")
    return spec.target if spec.target in known or len(known) != 1 else known[0]


def other_model(name: str, known: Sequence[str], target: str, folder: Path) -> list[str]:
    """Return a sentence if a server that lists its models is asked for one that is not called as the target is."""
    alike = {target, Path(target).name, folder.name}
    if not known or name in alike or Path(name).name in alike:
        return []
    return [
        f"the server is asked for model '{name}', and the target is '{target}':"
        " whether they are one model is not known"
    ]
