"""Any OpenAI-compatible server: one that runs already, at `base_url`, or one that a recipe of `kind: openai` starts.

With addresses on the arms the arms are the servers: one that drafts and one that does not, on one machine or two alike
ones. What each was started with is then the user's to know; `method`, `draft` and `block_size` are labels, and a server
whose counters nobody knows tells no acceptance. `runner: vllm` with a `base_url` reads vLLM's.
"""

from collections.abc import Iterator

from dflash_bench.errors import ConfigError
from dflash_bench.runners.launch import mentioned
from dflash_bench.runners.recipe import Recipe, load_recipe
from dflash_bench.runners.server.runner import ServerRunner
from dflash_bench.spec import Arm, Spec

# What an arm says, by the placeholders that carry it; its flags and its twin reach the command by themselves.
CARRIED = {"block_size": {"block_size", "num_draft_tokens"}, "options": {"options_json"}}
ALWAYS = {"flags", "matched"}


def make(spec: Spec, recipe: Recipe | None = None) -> ServerRunner:
    """Return the runner of `recipe`, or of our `runners/openai.yaml`, which starts nothing.

    Raises ConfigError for a setting of an arm that the recipe does not hand to the server: it would be ignored.
    """
    recipe = recipe or load_recipe("openai")
    for name, arm in spec.arms.items():
        if (arm.base_url or spec.base_url) is None and arm.method in recipe.methods:
            _check(name, arm, recipe)
    return ServerRunner(spec, recipe)


def _check(name: str, arm: Arm, recipe: Recipe) -> None:
    heard = mentioned(recipe, arm.method)
    for key in _told(arm):
        if not heard & CARRIED.get(key, {key}):
            raise ConfigError(
                f"arms.{name}.{key}: {recipe.reference} does not hand it to the server for method {arm.method}.",
                remedy=f"Remove it, or add a flag with {{{key}}} to start.methods.{arm.method} of the recipe.",
            )


def _told(arm: Arm) -> Iterator[str]:
    yield from (key for key in arm.settings if key not in ALWAYS)
    if arm.block_size is not None:
        yield "block_size"
