"""Any OpenAI-compatible server: one that runs already, at `base_url`, or one that a recipe of `kind: openai` starts.

With addresses on the arms the arms are the servers: one that drafts and one that does not, on one machine or two alike
ones. What each was started with is then the user's to know; `method`, `draft` and `block_size` are labels, and a server
whose counters nobody knows tells no acceptance. `runner: vllm` with a `base_url` reads vLLM's.
"""

from collections.abc import Iterator

from dflash_bench.errors import ConfigError
from dflash_bench.runners.launch import mentioned, names
from dflash_bench.runners.prepare import needs
from dflash_bench.runners.recipe import Recipe, load_recipe
from dflash_bench.runners.refusals import address, blocks, check_blocks, check_found
from dflash_bench.runners.server.runner import ServerRunner
from dflash_bench.spec import Arm, Spec

# What an arm says, by the placeholders that carry it; its flags and its twin reach the command by themselves.
CARRIED = {"block_size": {"block_size", "num_draft_tokens"}, "options": {"options_json"}}
ALWAYS = {"flags", "matched"}
# What an arm may lack, by the key that gives it; every other setting gives the placeholder of its own name.
GIVEN = {"num_draft_tokens": "block_size"}


def make(spec: Spec, recipe: Recipe | None = None) -> "OpenAiRunner":
    """Return the runner of `recipe`, or of our `runners/openai.yaml`, which starts nothing."""
    return OpenAiRunner(spec, recipe or load_recipe("openai"))


class OpenAiRunner(ServerRunner):
    """A server that its recipe alone describes."""

    def __init__(self, spec: Spec, recipe: Recipe) -> None:
        """Refuse a setting of an arm that the recipe would not hand on, and the lack of one that it needs."""
        super().__init__(spec, recipe)
        check_found(spec)
        for name, arm in spec.arms.items():
            if address(spec, arm) is None and arm.method in recipe.methods:
                _check_heard(name, arm, spec, recipe)
                _check_whole(name, arm, spec, recipe)

    def start(self) -> None:
        """Find what is needed; a block that a DFlash drafter was not trained for is refused."""
        super().start()
        check_blocks(self.spec, self._drafts)


def _check_heard(name: str, arm: Arm, spec: Spec, recipe: Recipe) -> None:
    heard = mentioned(recipe, arm.method)
    for key in _told(arm, spec):
        if not heard & CARRIED.get(key, {key}):
            raise ConfigError(
                f"arms.{name}.{key}: {recipe.reference} does not hand it to the server for method {arm.method}.",
                remedy=f"Remove it, or add a flag with {{{key}}} to start.methods.{arm.method} of the recipe.",
            )


def _told(arm: Arm, spec: Spec) -> Iterator[str]:
    yield from (key for key in arm.settings if key not in ALWAYS)
    if any(blocks(spec, arm)):
        yield "block_size"


def _check_whole(name: str, arm: Arm, spec: Spec, recipe: Recipe) -> None:
    """A method's words outside inner lists need their values, and a file that they name needs those it is made with."""
    words = recipe.start.methods[arm.method] if recipe.start else ()
    texts = [word for word in words if isinstance(word, str)]
    wanted = {placeholder for text in texts for placeholder in names(text)}
    for step in recipe.start.prepare if recipe.start else ():
        if any(step.makes in text for text in texts):
            wanted |= needs(step)
    lacking = {key for key in Arm.model_fields if getattr(arm, key) is None}
    if any(block is not None for block in blocks(spec, arm)):
        lacking.discard("block_size")
    for placeholder in sorted(wanted):
        key = GIVEN.get(placeholder, placeholder)
        if key in lacking:
            raise ConfigError(
                f"arms.{name}.{key}: is missing; {recipe.reference} starts no {arm.method} without {{{placeholder}}}.",
                remedy="Set it, or mend the recipe: a flag in an inner list of start.methods may lack its value.",
            )
