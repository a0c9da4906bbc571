"""From a runner's name, or a recipe's path, to its code, imported only when it is chosen."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from dflash_bench.assets import is_path, names
from dflash_bench.errors import ConfigError, did_you_mean
from dflash_bench.runners.base import Runner
from dflash_bench.runners.recipe import Recipe, load_recipe
from dflash_bench.spec import Spec

Factory = Callable[[Spec], Runner]

_ADDED: dict[str, Factory] = {}


def register(name: str, factory: Factory) -> None:
    """Add a runner from outside; `factory(spec)` makes it."""
    _ADDED[name] = factory


def make_runner(spec: Spec) -> Runner:
    """Return the runner that `spec` names; an unknown one is refused with those that exist."""
    if spec.runner in _ADDED:
        return _ADDED[spec.runner](spec)
    known = [*names("runners"), *_ADDED]
    if spec.runner not in known and not is_path(spec.runner):
        raise ConfigError(
            f"runner: there is no runner '{spec.runner}'.", remedy=did_you_mean(spec.runner, known)
        )
    recipe = load_recipe(spec.runner)
    runner: Runner = _module(recipe).make(spec, recipe)
    return runner


def _module(recipe: Recipe) -> ModuleType:
    """Return the file that drives a recipe: a server that needs no Python of its own is an OpenAI server."""
    name = "openai" if recipe.kind == "openai" else recipe.name
    place = f"dflash_bench.runners.{name}"
    # Not every file there is a runner: `name: base` would find one too.
    module = import_module(place) if name.isidentifier() and find_spec(place) else None
    if module is None or not hasattr(module, "make"):
        raise ConfigError(
            f"{recipe.path}: kind {recipe.kind} needs a runner dflash_bench/runners/{recipe.name}.py; there is none.",
            remedy="Take the name of a runner of ours, or `kind: openai` for a server that a recipe alone describes.",
        )
    if recipe.name in names("runners") and (ours := load_recipe(recipe.name)).kind != recipe.kind:
        raise ConfigError(
            f"{recipe.path}: kind is {recipe.kind}, and the runner {recipe.name} drives kind {ours.kind}.",
            remedy=f"Write kind: {ours.kind}, or give the recipe another name.",
        )
    return module
