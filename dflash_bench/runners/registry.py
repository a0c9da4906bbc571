"""From a runner's name to its code, imported only when it is chosen."""

from collections.abc import Callable
from importlib import import_module

from dflash_bench.assets import asset, names
from dflash_bench.errors import ConfigError, did_you_mean
from dflash_bench.runners.base import Runner
from dflash_bench.spec import Part, Spec, read_part

Factory = Callable[[Spec], Runner]

_ADDED: dict[str, Factory] = {}


class Recipe(Part):
    """What `runners/NAME.yaml` says of a backend; its code is `dflash_bench/runners/NAME.py`."""

    name: str
    title: str
    kind: str
    install: str
    targets: str
    needs: str


def recipes() -> list[Recipe]:
    """Return the recipes of ours, by name."""
    paths = [asset("runners", f"{name}.yaml") for name in names("runners")]
    return [read_part(path, Recipe, remedy="Mend the file.") for path in paths]


def register(name: str, factory: Factory) -> None:
    """Add a runner from outside; `factory(spec)` makes it."""
    _ADDED[name] = factory


def make_runner(spec: Spec) -> Runner:
    """Return the runner that `spec` names; an unknown one is refused with those that exist."""
    if spec.runner in _ADDED:
        return _ADDED[spec.runner](spec)
    known = [*names("runners"), *_ADDED]
    if spec.runner not in known:
        raise ConfigError(
            f"runner: there is no runner '{spec.runner}'.", remedy=did_you_mean(spec.runner, known)
        )
    module = import_module(f"dflash_bench.runners.{spec.runner}")
    runner: Runner = module.make(spec)
    return runner
