"""Methods by name. A builder imports what it needs when it is called, not before.

The registry is open: a package of yours may `register("mine", build_mine)` and write `method:
mine`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dflash_bench.errors import ConfigError, did_you_mean

if TYPE_CHECKING:  # the names of the methods can be listed where torch is not installed
    from dflash_bench.engine.methods.base import Drafter
    from dflash_bench.engine.target import Target

Settings = Mapping[str, object]
Loaded = dict[object, Any]
"""Checkpoints that are in memory already: whoever builds several drafters keeps it between the calls."""
Builder = Callable[["Target", Settings, Loaded], "Drafter"]
"""(target, the arm's settings: draft, block_size, ...; what is loaded) -> a drafter for that target."""


def build(
    method: str, target: "Target", settings: Settings, loaded: Loaded | None = None
) -> "Drafter":
    """Build the drafter of `method`; drafters of one checkpoint share its weights through `loaded`.

    Raises ConfigError for an unknown method, or settings and a checkpoint that do not fit.
    """
    if method not in _BUILDERS:
        raise ConfigError(f"There is no method '{method}'.", remedy=did_you_mean(method, _BUILDERS))
    return _BUILDERS[method](target, settings, {} if loaded is None else loaded)


def register(method: str, builder: Builder, title: str = "") -> None:
    """Make `method` known; the name must be free. `title` says what it does, in a line."""
    if method in _BUILDERS:
        raise ValueError(f"method {method!r} is registered already")
    _BUILDERS[method], _TITLES[method] = builder, title


def methods() -> dict[str, str]:
    """Return all methods by name, each with what it does."""
    return {method: _TITLES.get(method, "") for method in _BUILDERS}


def _build_ar(target: "Target", settings: Settings, loaded: Loaded) -> "Drafter":
    from dflash_bench.engine.methods.ar import AutoregressiveDrafter

    return AutoregressiveDrafter()


def _build_dflash(target: "Target", settings: Settings, loaded: Loaded) -> "Drafter":
    from dflash_bench.engine.hub import local_folder
    from dflash_bench.engine.methods import dflash_checkpoint as checkpoint
    from dflash_bench.engine.methods.dflash import DFlashDrafter
    from dflash_bench.engine.methods.dflash_config import read_config

    draft, asked = settings.get("draft"), settings.get("block_size")
    if not isinstance(draft, str | Path):
        raise ConfigError(
            f"Method 'dflash' needs a drafter, but draft is {draft!r}.",
            remedy="Set draft: to a folder or hub id.",
        )
    if asked is not None and type(asked) is not int:
        raise ConfigError(f"block_size is {asked!r}.", remedy="It must be an integer.")
    folder = local_folder(draft)
    config = read_config(folder / "config.json")
    checkpoint.check_fit(config, target)
    block_size = checkpoint.choose_block_size(config, asked)
    if ("dflash", folder) not in loaded:
        model = checkpoint.load(folder, dtype=target.dtype, device=target.device)
        loaded["dflash", folder] = model
    return DFlashDrafter(loaded["dflash", folder], target, block_size)


_BUILDERS: dict[str, Builder] = {"ar": _build_ar, "dflash": _build_dflash}
_TITLES = {
    "ar": "plain decoding: the same loop with nothing drafted; the baseline",
    "dflash": "a block-diffusion drafter fills a block of masks in one pass; needs draft:",
}
