"""What each backend lacks on this machine, and the one command that mends it. Nothing heavy is imported to find out."""

import shlex
from dataclasses import dataclass, field
from importlib import metadata
from typing import Literal

from dflash_bench.assets import names
from dflash_bench.errors import BenchError, ConfigError
from dflash_bench.runners import environments
from dflash_bench.runners.recipe import Recipe, load_recipe

# ready: it can be used now; missing: `fix` installs it; elsewhere: it is not for this machine;
# broken: its recipe cannot be read.
Status = Literal["ready", "missing", "elsewhere", "broken"]

# What talks to a server from here, beside what dflash-bench always has.
_CLIENT = ("aiohttp", "prometheus-client", "transformers")
_CLIENT_EXTRA = "pip install 'dflash-bench[servers]'"


@dataclass(frozen=True)
class Diagnosis:
    """One backend's state. `version` is of what is installed; `methods` says how each was verified."""

    name: str
    status: Status
    version: str | None = None
    variant: str | None = None
    methods: dict[str, str] = field(default_factory=dict)
    lacks: str | None = None
    fix: str | None = None


def diagnoses() -> list[Diagnosis]:
    """Examine every backend of ours, by name."""
    return [diagnose(name) for name in names("runners")]


def diagnose(name: str) -> Diagnosis:
    """Examine one; a recipe that cannot be read is a finding, not a failure of the examination."""
    try:
        recipe = load_recipe(name)
    except ConfigError as error:
        return Diagnosis(name, "broken", lacks=error.message, fix=error.remedy)
    if recipe.environment is not None:
        return _own_environment(recipe)
    if isinstance(recipe.install, str):
        return _beside_us(recipe, recipe.install)
    lacks = _absent(_CLIENT) if recipe.is_server else None
    if lacks:
        return _diagnosis(recipe, "missing", lacks=lacks, fix=_CLIENT_EXTRA)
    return _diagnosis(recipe, "ready", lacks=recipe.needs)


def _own_environment(recipe: Recipe) -> Diagnosis:
    make = f"dflash-bench env create {recipe.reference}"
    found = environments.find(recipe.name)
    if found is None:
        try:
            variant = environments.choose_variant(recipe)
        except BenchError as error:
            return _diagnosis(recipe, "elsewhere", lacks=error.message, fix=error.remedy)
        begun = environments.is_ours(environments.folder_of(recipe.name))
        lacks = "its environment was begun and not finished" if begun else "its environment"
        return _diagnosis(recipe, "missing", variant=variant, lacks=lacks, fix=make)
    told = (found.version, found.variant)
    if reason := environments.mismatch(recipe, found):
        return _diagnosis(recipe, "missing", *told, lacks=reason, fix=f"{make} --force")
    absent = _absent(_CLIENT) if recipe.is_server else None
    if absent:
        return _diagnosis(recipe, "missing", *told, lacks=absent, fix=_CLIENT_EXTRA)
    return _diagnosis(recipe, "ready", *told)


def _beside_us(recipe: Recipe, command: str) -> Diagnosis:
    """Look for what `command`, such as `pip install 'torch>=2.11' ...`, would install."""
    from packaging.requirements import InvalidRequirement, Requirement

    versions, lacks = [], []
    for word in shlex.split(command)[2:]:
        try:
            wanted = Requirement(word)
        except InvalidRequirement:
            continue  # an option of pip's
        found = _version(wanted.name)
        if found is None:
            lacks.append(str(wanted))
        elif not wanted.specifier.contains(found, prereleases=True):
            lacks.append(f"{wanted} (found {found})")
        else:
            versions.append(f"{wanted.name} {found}")
    told = ", ".join(versions) or None
    if lacks:
        return _diagnosis(recipe, "missing", version=told, lacks=", ".join(lacks), fix=command)
    return _diagnosis(recipe, "ready", version=told)


def _diagnosis(
    recipe: Recipe,
    status: Status,
    version: str | None = None,
    variant: str | None = None,
    lacks: str | None = None,
    fix: str | None = None,
) -> Diagnosis:
    methods = {name: str(verified) for name, verified in recipe.methods.items()}
    return Diagnosis(recipe.name, status, version, variant, methods, lacks, fix)


def _absent(packages: tuple[str, ...]) -> str | None:
    return ", ".join(package for package in packages if _version(package) is None) or None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
