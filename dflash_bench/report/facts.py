"""A nested mapping as a flat list of labelled values: how a manifest's open parts are shown whatever they hold."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dflash_bench.report.words import NOT_MEASURED, digits


@dataclass(frozen=True)
class Fact:
    """A label and its value, both as text."""

    label: str
    value: str


def flatten(part: Any) -> tuple[Fact, ...]:
    """Return the leaves of `part` in their order, each labelled by its path: `{"a": {"b": 1}}` is `a b: 1`."""
    return tuple(Fact(_label(path), _value(path, value)) for path, value in _leaves(part, ()))


def _leaves(part: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(part, Mapping):
        for name, value in part.items():
            yield from _leaves(value, (*path, str(name)))
    elif part is not None or path:
        yield path, part


def _label(path: tuple[str, ...]) -> str:
    words = " ".join(path).replace("_", " ")
    return words.removesuffix(" bytes").removesuffix(" s")


def _value(path: tuple[str, ...], value: Any) -> str:
    """Write one leaf; the unit that a name ends in stands behind its number."""
    if value is None:
        return NOT_MEASURED
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(_value((), item) for item in value)
    if isinstance(value, int | float):
        return _number(path[-1] if path else "", value)
    return str(value)


def _number(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return f"{digits(value / 2**30)} GiB" if value >= 2**30 else f"{digits(value / 2**20)} MiB"
    text = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    return f"{text} s" if name.endswith("_s") else text
