"""An environment of its own for each backend: vLLM and SGLang pin packages that exclude each other, and ours.

`HOME/envs/NAME` is a virtual environment made from the recipe's `install`. A marker is written first and `env.json`
last, so that a half-made environment is never taken for a whole one; a folder that we did not make is never deleted.
Who makes or removes one holds a lock on `HOME/envs/.NAME.lock`, which the system frees when its holder is gone.
"""

import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from dflash_bench.errors import ConfigError, did_you_mean
from dflash_bench.runners import machine
from dflash_bench.runners.install import Installer, interpreter
from dflash_bench.runners.launch import Value
from dflash_bench.runners.recipe import NAME, Install, Recipe
from dflash_bench.spec import Spec

MARKER = ".dflash-bench-env"
# What a kind of machine is called as `device`, where it has one name there.
_DEVICES = {"cpu": "cpu", "cuda": "cuda", "metal": "metal"}
FACTS = "env.json"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Environment:
    """A whole environment: what was installed, when, and from which words of a recipe."""

    name: str
    variant: str
    version: str
    made: str
    recipe: str
    install_digest: str
    packages: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return folder_of(self.name)

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"


def home() -> Path:
    """Return the folder of everything that we install or prepare: DFLASH_BENCH_HOME, or the user's data folder."""
    if named := os.environ.get("DFLASH_BENCH_HOME"):
        return Path(named).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "dflash-bench"


def folder_of(name: str) -> Path:
    """Return the folder of the environment `name`, which need not exist."""
    return home() / "envs" / name


def find(name: str) -> Environment | None:
    """Return the whole environment `name`; None where there is none, or a half-made one."""
    try:
        facts = json.loads((folder_of(name) / FACTS).read_text(encoding="utf-8"))
        return Environment(**{**facts, "name": name, "packages": tuple(facts["packages"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def listed() -> dict[str, Environment | None]:
    """Return every environment that we made or began, by name; None is a half-made one."""
    folders = sorted((home() / "envs").glob("*/"))
    return {folder.name: find(folder.name) for folder in folders if is_ours(folder)}


def is_ours(folder: Path) -> bool:
    """Tell whether we made `folder`: it holds our marker."""
    return (folder / MARKER).is_file() and not folder.is_symlink()


def environment_of(recipe: Recipe) -> Environment | None:
    """Return the environment that fits `recipe`; None where there is none, or one of other packages (`mismatch`)."""
    found = find(recipe.name)
    return found if found is not None and mismatch(recipe, found) is None else None


def mismatch(recipe: Recipe, found: Environment) -> str | None:
    """Say how `found` is not what `recipe` installs, or None."""
    install = _install(recipe)
    if found.variant not in install.variants:
        return f"it is the variant '{found.variant}', which the recipe has not"
    if found.install_digest != recipe.install_digest(found.variant):
        return "the recipe's `install` has changed since it was made"
    return None if found.python.exists() else f"its interpreter {found.python} is gone"


def required(recipe: Recipe) -> Environment:
    """Return the environment of `recipe`; raises ConfigError with the command that makes it."""
    found = find(recipe.name)
    make = f"dflash-bench env create {recipe.reference}"
    if found is None:
        raise ConfigError(
            f"the environment of {recipe.name} is not installed.", remedy=f"Run `{make}`."
        )
    if reason := mismatch(recipe, found):
        raise ConfigError(
            f"the environment {found.folder}: {reason}.", remedy=f"Run `{make} --force`."
        )
    return found


def python_of(recipe: Recipe) -> Path:
    """Return the interpreter of the environment of `recipe`; raises ConfigError as `required`."""
    return required(recipe).python


def variant_of(recipe: Recipe) -> str | None:
    """Return the variant that is installed; None where the recipe has no environment of its own."""
    return None if recipe.environment is None else required(recipe).variant


def values(recipe: Recipe) -> dict[str, Value]:
    """Return the placeholders `{python}` and `{env}`; None where the recipe has no environment of its own."""
    if recipe.environment is None:
        return {"python": None, "env": None}
    found = required(recipe)
    return {"python": found.python, "env": found.folder}


def check_device_of(spec: Spec, variant: str | None) -> None:
    """Raise ConfigError where the spec's device is not what `variant` of an environment runs on.

    A server does not read `device`, so that the manifest would name a machine that measured nothing.
    """
    wanted = _DEVICES.get(variant or "")
    if wanted is not None and spec.device.partition(":")[0] != wanted:
        raise ConfigError(
            f"device: is {spec.device}, and the environment of {spec.runner} is the variant {variant}.",
            remedy=f"Set device: {wanted}, or make another environment with `dflash-bench env create"
            f" {spec.runner} --force --variant ...`.",
        )


def choose_variant(recipe: Recipe, wanted: str = "auto", here: Sequence[str] | None = None) -> str:
    """Return the variant to install: `wanted`, or by "auto" the best that this machine is and the recipe has.

    `here` are the kinds that this machine is (`machine.variants`); None asks for them.
    """
    known = _install(recipe).variants
    if wanted != "auto":
        if wanted not in known:
            raise ConfigError(
                f"recipe {recipe.reference}: install.variants has no '{wanted}'.",
                remedy=did_you_mean(wanted, known),
            )
        return wanted
    here = machine.variants() if here is None else here
    fitting = [variant for variant in here if variant in known]
    if fitting:
        return fitting[0]
    if len(known) == 1 and not set(known) <= {"cuda", "cpu", "metal"}:
        return next(iter(known))
    raise ConfigError(
        f"recipe {recipe.reference}: none of its variants ({', '.join(known)}) is for this machine"
        f" ({', '.join(here)}).",
        remedy="Run it where it belongs, or force one with --variant.",
    )


def create(
    recipe: Recipe, variant: str = "auto", *, force: bool = False, say: Say = print
) -> Environment:
    """Install `recipe`; a whole environment that fits is kept unless `force`, a half-made one is begun afresh.

    Raises ConfigError for a folder that is not ours or an environment of other packages, InfrastructureError
    with the end of the log where a step fails. While another process makes it, this one waits.
    """
    _install(recipe)
    with _alone(recipe.name, say):
        return _create(recipe, variant, force, say)


def _create(recipe: Recipe, variant: str, force: bool, say: Say) -> Environment:
    install, folder = _install(recipe), folder_of(recipe.name)
    chosen = choose_variant(recipe, variant)
    found = find(recipe.name)
    if found is not None and not force:
        reason = mismatch(recipe, found) or _other(found, variant, chosen)
        if reason is None:
            say(f"{folder} is there already: {recipe.name} {found.version} ({found.variant}).")
            return found
        raise ConfigError(
            f"{folder} is there already, but {reason}.", remedy="Make it afresh with --force."
        )
    python = interpreter(install.python)
    if folder.exists() or folder.is_symlink():
        _delete(folder)
    folder.mkdir(parents=True)
    (folder / MARKER).touch()
    installer = Installer(folder, python, home() / "logs" / f"env-{recipe.name}.log", say)
    version, packages = installer.install(install, chosen, recipe)
    made = datetime.now(UTC).isoformat(timespec="seconds")
    digest = recipe.install_digest(chosen)
    whole = Environment(recipe.name, chosen, version, made, recipe.reference, digest, packages)
    _write(folder / FACTS, json.dumps(asdict(whole), indent=1))
    return whole


def remove(name: str) -> Path:
    """Delete the environment `name`, whole or half-made, and return where it was.

    Raises ConfigError for a folder that is not ours, and for an environment that is being made.
    """
    folder = folder_of(name)
    if re.fullmatch(NAME, name) is None or not folder.is_dir():
        raise ConfigError(
            f"there is no environment '{name}' in {home() / 'envs'}.",
            remedy=did_you_mean(name, listed())
            if listed()
            else "`dflash-bench env list` shows all.",
        )
    with _alone(name, None):
        _delete(folder)
    return folder


@contextmanager
def _alone(name: str, say: Say | None) -> Iterator[None]:
    """Hold the lock of the environment `name`; wait for its holder after a word by `say`, or without one refuse."""
    path = home() / "envs" / f".{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if say is None:
                raise ConfigError(
                    f"the environment {name} is being made or removed by another process.",
                    remedy="Wait until that is done.",
                ) from None
            say(f"waiting for another process that makes or removes {folder_of(name)}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _other(found: Environment, wanted: str, chosen: str) -> str | None:
    """Say that an explicit --variant is not the one that is there; "auto" is content with what it finds."""
    if wanted == "auto" or found.variant == chosen:
        return None
    return f"it is the variant '{found.variant}', not '{chosen}'"


def _delete(folder: Path) -> None:
    if not is_ours(folder):
        raise ConfigError(
            f"{folder} was not made by `dflash-bench env create`; it is left alone.",
            remedy="Look what it is, and move it away yourself.",
        )
    (folder / FACTS).unlink(missing_ok=True)  # from now on it is a half-made one
    shutil.rmtree(folder)


def _install(recipe: Recipe) -> Install:
    if recipe.environment is None:
        here = f" It is installed beside dflash-bench: {recipe.install}" if recipe.install else ""
        raise ConfigError(
            f"{recipe.name} has no environment of its own.{here}",
            remedy="`dflash-bench doctor` says what each backend needs.",
        )
    return recipe.environment


def _write(path: Path, text: str) -> None:
    """Write `text` so that the file is there whole or not at all."""
    draft = path.with_suffix(".part")
    draft.write_text(text + "\n", encoding="utf-8")
    draft.replace(path)
