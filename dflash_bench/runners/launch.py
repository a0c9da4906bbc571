"""From a recipe to the command that starts a backend: placeholders are filled word by word; no shell reads the result.

A word is a text with `{name}`s in it; braces around anything but one lower-case name (JSON's, say) stay as they are. A
value that an arm has not (None) is refused, except within an inner list, `[--block-size, "{block_size}"]`, which is
then left out whole: so the backend's own default holds, and nothing is guessed.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dflash_bench.assets import PACKAGE
from dflash_bench.errors import ConfigError, did_you_mean
from dflash_bench.plan import PlannedArm
from dflash_bench.runners.recipe import Argv, Recipe, Start
from dflash_bench.spec import Arm

Value = str | int | float | Path | None
Values = Mapping[str, Value]

_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
# What an arm may say in one word. One that is not set is known all the same: it has no value.
SETTINGS = set(Arm.model_fields) - {"verify", "tree", "options", "flags", "base_url"}


@dataclass(frozen=True)
class Launch:
    """A command and the environment variables that it needs beside the user's own."""

    argv: tuple[str, ...]
    env: dict[str, str]


def fill(words: Argv, values: Values, where: str) -> tuple[str, ...]:
    """Return the command that `words` are with `values`; `where` (file and key) stands in errors."""
    filled: list[str] = []
    for word in words:
        if isinstance(word, str):
            filled.append(fill_text(word, values, where))
        elif all(values.get(name, "") is not None for part in word for name in names(part)):
            filled += [fill_text(part, values, where) for part in word]
    return tuple(filled)


def fill_text(text: str, values: Values, where: str) -> str:
    """Return `text` with its placeholders replaced, each once: a value is never read for placeholders."""

    def value_of(found: re.Match[str]) -> str:
        name = found[1]
        if name not in values:
            raise ConfigError(
                f"{where}: {found[0]} is not a placeholder. {did_you_mean(name, values)}",
                remedy="Mend the recipe; runners/README.md explains its placeholders.",
            )
        value = values[name]
        if value is None:
            raise ConfigError(
                f"{where}: needs {found[0]}, which this arm does not give.",
                remedy=f"Set it in the arm, or leave the flag out with an inner list, [--flag, '{found[0]}'].",
            )
        return str(value)

    return _PLACEHOLDER.sub(value_of, text)


def paths(recipe: Recipe) -> dict[str, Value]:
    """Return the placeholders that every command of `recipe` has: where our code and its own file lie."""
    folder = recipe.path.parent if recipe.path else None
    return {"package": PACKAGE, "recipe_dir": folder}


def arm_values(arm: PlannedArm) -> dict[str, Value]:
    """Return the placeholders of an arm: its lengths, its drafter, its options as JSON, and every plain setting.

    What it does not set is None.
    """
    plain = {
        name: json.dumps(value) if isinstance(value, bool) else value
        for name, value in arm.settings.items()
        if isinstance(value, str | int | float)
    }
    return {
        **dict.fromkeys(SETTINGS),
        **plain,
        "method": arm.method,
        "draft": arm.draft,
        "block_size": arm.block_size,
        "num_draft_tokens": arm.num_draft_tokens,
        "options_json": json.dumps(arm.settings.get("options", {})),
    }


def refusal(
    recipe: Recipe,
    method: str,
    *,
    dtype: str | None = None,
    quantization: str | None = None,
    matched: str | None = None,
) -> str | None:
    """Say what of this choice the recipe does not have, or None."""
    start = recipe.start
    if method not in recipe.methods:
        return f"{recipe.name} has no method '{method}'. {did_you_mean(method, recipe.methods)}"
    if start is None:
        return None
    if dtype is not None and start.dtype and dtype not in start.dtype:
        return f"{recipe.name} is not started in {dtype}. {did_you_mean(dtype, start.dtype)}"
    if quantization is not None and quantization not in start.quantization:
        known = ", ".join(start.quantization) or "none"
        return f"{recipe.name} has no target_quantization '{quantization}' (it has {known})"
    if matched is not None and (method != "ar" or matched not in start.matched):
        known = ", ".join(start.matched) or "none"
        return f"{recipe.name} has no plain decoding matched to '{matched}' (it has {known})"
    return None


def launch(
    recipe: Recipe,
    values: Values,
    *,
    variant: str | None,
    method: str,
    dtype: str,
    quantization: str | None = None,
    matched: str | None = None,
    flags: Iterable[str] = (),
    env: Mapping[str, str] | None = None,
) -> Launch:
    """Return the command of one start: the recipe's, then what each choice adds, then the user's own `flags`.

    `variant` is the environment's (`environments.variant_of`). Raises ConfigError for what the recipe has not.
    """
    start = _start(recipe)
    reason = refusal(recipe, method, dtype=dtype, quantization=quantization, matched=matched)
    if reason is not None:
        raise ConfigError(f"{reason}.", remedy=f"Choose another, or add it to {recipe.reference}.")
    extra = start.variants.get(variant) if variant else None
    parts: list[tuple[str, Argv]] = [("command", start.command)]
    if extra is not None:
        parts.append((f"variants.{variant}.flags", extra.flags))
    parts.append((f"dtype.{dtype}", start.dtype.get(dtype, ())))
    if quantization is not None:
        parts.append((f"quantization.{quantization}", start.quantization[quantization]))
    if matched is not None:
        parts.append((f"matched.{matched}", start.matched[matched]))
    else:
        parts.append((f"methods.{method}", start.methods[method]))
    known = {**paths(recipe), **values}
    argv = [
        word
        for key, words in parts
        for word in fill(words, known, f"recipe {recipe.reference}: start.{key}")
    ]
    if argv[:1] == ["python"] and (python := known.get("python")) is not None:
        argv[0] = str(python)
    return Launch((*argv, *flags), {**variables(recipe, variant, known), **(env or {})})


def variables(recipe: Recipe, variant: str | None, values: Values) -> dict[str, str]:
    """Return the environment variables of the recipe's `start`, its variant's over its own, with `values`."""
    start = _start(recipe)
    extra = start.variants.get(variant) if variant else None
    known = {**paths(recipe), **values}
    return {
        name: fill_text(text, known, f"recipe {recipe.reference}: start.env.{name}")
        for name, text in {**start.env, **(extra.env if extra else {})}.items()
    }


def _start(recipe: Recipe) -> Start:
    if recipe.start is None:
        raise ConfigError(
            f"recipe {recipe.reference}: has no `start`, so it cannot be started.",
            remedy="Start the server yourself and give its address as base_url.",
        )
    return recipe.start


def mentioned(recipe: Recipe, method: str) -> set[str]:
    """Return the placeholders that a start of `recipe` with `method` fills, its preparation included."""
    start = recipe.start
    if start is None:
        return set()
    argvs = [
        start.command,
        start.methods.get(method, ()),
        *(step.command for step in start.prepare),
    ]
    argvs += [extra.flags for extra in start.variants.values()]
    words = [
        part
        for argv in argvs
        for word in argv
        for part in ([word] if isinstance(word, str) else word)
    ]
    return {name for text in (*words, *start.env.values()) for name in names(text)}


def names(text: str) -> list[str]:
    """Return the names of the placeholders in `text`."""
    return _PLACEHOLDER.findall(text)
