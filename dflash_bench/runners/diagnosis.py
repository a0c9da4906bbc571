"""What each backend lacks on this machine, and the one command that mends it. Nothing heavy is imported to find out."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import Literal

from dflash_bench.assets import names
from dflash_bench.errors import ConfigError
from dflash_bench.runners import environments
from dflash_bench.runners.recipe import Recipe, load_recipe

# ready: it can be used now; missing: `fix` installs it; elsewhere: it is not for this machine;
# broken: its recipe cannot be read.
Status = Literal["ready", "missing", "elsewhere", "broken"]

# What talks to a backend from this Python, beside what dflash-bench always has: a worker is asked over pipes, and only
# the target's tokenizer is needed here.
_ASKING = {
    "worker": ("transformers",),
    "server": ("aiohttp", "prometheus-client", "transformers"),
    "openai": ("aiohttp", "prometheus-client", "transformers"),
}
_ASKING_EXTRA = "pip install 'dflash-bench[servers]'"
# Backends that run under this Python where they have no environment and these packages are here (`transformers.py`).
_FALLBACK = {"transformers": ("torch", "transformers")}
# The variant that recipes are verified on: what is live there has run nowhere else.
_VERIFIED_ON = "cpu"


@dataclass(frozen=True)
class Diagnosis:
    """One backend's state.

    `version` is of what is installed; `methods` says how each was verified on the variant, `without` what that has not;
    `needs` is in the recipe's words, and nobody can look whether it is there; `note` says what else to know.
    """

    name: str
    status: Status
    version: str | None = None
    variant: str | None = None
    methods: dict[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    needs: str | None = None
    note: str | None = None
    lacks: str | None = None
    fix: str | None = None


def diagnoses(here: Sequence[str] | None) -> list[Diagnosis]:
    """Examine every backend of ours, by name, on a machine of the kinds `here`; None: its driver does not say."""
    return [diagnose(name, here) for name in names("runners")]


def diagnose(name: str, here: Sequence[str] | None) -> Diagnosis:
    """Examine one; a recipe that cannot be read is a finding, not a failure of the examination."""
    try:
        recipe = load_recipe(name)
    except ConfigError as error:
        return Diagnosis(name, "broken", lacks=error.message, fix=error.remedy)
    if recipe.environment is not None:
        return _own_environment(recipe, here)
    if isinstance(recipe.install, str):
        return _beside_us(recipe, recipe.install)
    return _asked_from_here(_found(recipe, "ready"), recipe)


def _own_environment(recipe: Recipe, here: Sequence[str] | None) -> Diagnosis:
    make = f"dflash-bench env create {recipe.reference}"
    found = environments.find(recipe.name)
    if found is None:
        return _not_installed(recipe, here, make)
    told = _found(recipe, "ready", found.version, found.variant)
    if reason := environments.mismatch(recipe, found):
        return replace(told, status="missing", lacks=reason, fix=f"{make} --force")
    return _asked_from_here(told, recipe)


def _not_installed(recipe: Recipe, here: Sequence[str] | None, make: str) -> Diagnosis:
    fallback = _FALLBACK.get(recipe.name)
    if fallback is not None and _absent(fallback) is None:
        versions = ", ".join(f"{package} {_version(package)}" for package in fallback)
        note = f"under this Python, for it has no environment; `{make}` makes one"
        return replace(_found(recipe, "ready", versions), note=note)
    begun = environments.is_ours(environments.folder_of(recipe.name))
    lacks = "its environment was begun and not finished" if begun else "its environment"
    if here is None:
        kinds = " or ".join(recipe.environment.variants if recipe.environment else ())
        fix = f"{make} --variant KIND (the driver does not tell which: {kinds})"
        return replace(_found(recipe, "missing"), lacks=lacks, fix=fix)
    try:
        variant = environments.choose_variant(recipe, here=here)
    except ConfigError as error:
        return replace(_found(recipe, "elsewhere"), lacks=error.message, fix=error.remedy)
    missing = _found(recipe, "missing", variant=variant)
    also = _absent(_ASKING.get(recipe.kind, ()))
    if also:
        return replace(
            missing, lacks=f"{lacks}; beside dflash-bench {also}", fix=f"{make}; {_ASKING_EXTRA}"
        )
    return replace(missing, lacks=lacks, fix=make)


def _asked_from_here(ready: Diagnosis, recipe: Recipe) -> Diagnosis:
    """Return `ready`, or what this Python lacks to ask the backend."""
    absent = _absent(_ASKING.get(recipe.kind, ()))
    if absent is None:
        return ready
    return replace(
        ready, status="missing", lacks=f"beside dflash-bench {absent}", fix=_ASKING_EXTRA
    )


def _beside_us(recipe: Recipe, command: str) -> Diagnosis:
    """Look for what `command`, such as `pip install 'torch>=2.11' ...`, would install: just what the recipe needs."""
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
    told = replace(_found(recipe, "ready", ", ".join(versions) or None), needs=None)
    if lacks:
        return replace(told, status="missing", lacks=", ".join(lacks), fix=command)
    return told


def _found(
    recipe: Recipe, status: Status, version: str | None = None, variant: str | None = None
) -> Diagnosis:
    """Return the recipe's words on `variant`; None: that of a backend without variants, or nobody knows which."""
    extra = recipe.start.variants.get(variant) if recipe.start and variant else None
    without = extra.without if extra else ()
    ran_here = variant in (None, _VERIFIED_ON)
    methods = {
        name: "from source" if verified == "live" and not ran_here else str(verified)
        for name, verified in recipe.methods.items()
        if name not in without
    }
    return Diagnosis(recipe.name, status, version, variant, methods, without, recipe.needs)


def _absent(packages: tuple[str, ...]) -> str | None:
    return ", ".join(package for package in packages if _version(package) is None) or None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
