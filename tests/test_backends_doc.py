"""docs/backends.md says of each backend and method how it was verified, as its recipe does."""

from pathlib import Path

import pytest

from dflash_bench.runners.recipe import Recipe, load_recipes

ROOT = Path(__file__).resolve().parents[1]
METHODS = ("ar", "dflash", "eagle3", "medusa", "draft_model", "ngram", "mtp", "suffix")


def row(recipe: Recipe) -> str:
    return f"| {recipe.name} | " + " | ".join(recipe.methods.get(m, "") for m in METHODS) + " |"


@pytest.mark.parametrize("recipe", load_recipes(), ids=lambda recipe: str(recipe.name))
def test_the_page_says_how_each_method_was_verified(recipe: Recipe) -> None:
    assert set(recipe.methods) <= set(METHODS)
    if recipe.methods:
        assert row(recipe) in (ROOT / "docs/backends.md").read_text(encoding="utf-8")
