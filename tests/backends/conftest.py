"""Tests against real backends: `make test-backends`. Each adds rows to one table, which is printed last.

They run only when asked for by their mark (`pytest -m backend tests/backends`), each where its environment exists.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.runners import environments
from dflash_bench.runners.recipe import Recipe, load_recipe, load_recipes

TABLE = pytest.StashKey[list["Row"]]()


class Row(NamedTuple):
    """What was seen of a method on a backend; tau beside the reference engine's for the same prompts."""

    backend: str
    version: str
    method: str
    tau: float | None
    reference_tau: float | None
    identical: int | None
    compared: int | None
    verified: str

    def cells(self) -> list[str]:
        taus = [_digits(self.tau), _digits(self.reference_tau)]
        texts = "-" if self.compared is None else f"{self.identical} of {self.compared}"
        return [self.backend, self.version, self.method, *taus, texts, self.verified]


def _digits(tau: float | None) -> str:
    return "-" if tau is None else f"{tau:.3f}"


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TABLE] = []


@pytest.fixture
def record_row(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Add a row to the table: backend, version, method, tau, reference_tau, identical, compared, verified."""

    def record(
        backend: str,
        version: str | None,
        method: str,
        tau: float | None,
        reference_tau: float | None,
        identical: int | None,
        compared: int | None,
        verified: str = "live",
    ) -> None:
        row = Row(
            backend, version or "-", method, tau, reference_tau, identical, compared, verified
        )
        request.config.stash[TABLE].append(row)

    return record


@pytest.fixture
def backend() -> Callable[[str], Recipe]:
    """Return the recipe of a backend whose environment is there; the test is skipped where it is not."""

    def found(name: str) -> Recipe:
        recipe = load_recipe(name)
        try:
            environments.required(recipe)
        except ConfigError as error:
            pytest.skip(f"{error.message} {error.remedy}")
        return recipe

    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table: what ran live just now, and how everything else that a recipe offers was verified."""
    rows = terminalreporter.config.stash[TABLE]
    if not rows:
        return
    lines = table(rows)
    terminalreporter.section("backends")
    terminalreporter.write_line("\n".join(lines))
    place = os.environ.get("DFLASH_BENCH_TABLE")
    if place:
        Path(place).write_text("\n".join(lines) + "\n", encoding="utf-8")


def table(rows: list[Row]) -> list[str]:
    """Return `rows`, and what no test touched, as a Markdown table."""
    seen = {(row.backend, row.method.split()[0]) for row in rows}
    rest = [
        Row(recipe.name, "-", method, None, None, None, None, f"{verified} (not run here)")
        for recipe in load_recipes()
        for method, verified in recipe.methods.items()
        if (recipe.name, method) not in seen
    ]
    head = ["backend", "version", "method", "tau", "reference tau", "identical texts", "verified"]
    cells = [head, *(row.cells() for row in [*sorted(rows, key=lambda row: row[:3]), *rest])]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    ruled = [cells[0], ["-" * width for width in widths], *cells[1:]]
    return [
        "| "
        + " | ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        + " |"
        for row in ruled
    ]
