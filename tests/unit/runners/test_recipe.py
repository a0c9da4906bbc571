"""A recipe is read strictly: what is mistyped in it is a sentence, never a default."""

from pathlib import Path
from typing import Any

import pytest

from dflash_bench.assets import names
from dflash_bench.errors import ConfigError
from dflash_bench.runners.recipe import load_recipe, load_recipes
from tests.unit.runners.recipes import SMALL, small, written


def changed(where: str, value: Any) -> dict[str, Any]:
    """Return the small recipe with the key at `where`, dotted, set to `value`."""
    key, _, rest = where.partition(".")
    if not rest:
        return {**SMALL, key: value}
    section = dict(SMALL[key])
    section[rest] = value
    return {**SMALL, key: section}


@pytest.mark.parametrize("name", names("runners"))
def test_our_recipes_are_whole(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.reference == name


def test_all_our_recipes_are_listed() -> None:
    assert [recipe.name for recipe in load_recipes()] == names("runners")


def test_a_recipe_of_the_users_is_named_by_its_path(tmp_path: Path) -> None:
    recipe = small(tmp_path)
    assert recipe.reference == str(tmp_path / "small.yaml")
    assert load_recipe(str(tmp_path / "small.yaml")) == recipe


def test_numbers_in_commands_are_words(tmp_path: Path) -> None:
    recipe = small(tmp_path)
    assert recipe.start is not None
    assert recipe.start.quantization["int8"] == ("--bits", "8")
    assert recipe.start.env == {"SMALL_THREADS": "1"}


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="no recipe 'referense'") as caught:
        load_recipe("referense")
    assert "Did you mean 'reference'?" in caught.value.remedy


@pytest.mark.parametrize(
    ("where", "value", "sentence"),
    [
        ("kind", "daemon", "kind: "),
        ("name", "../up", "name: "),
        ("helth", {}, "helth: is not a known key. Did you mean 'health'"),
        (
            "start.variants",
            {"cpu": {"without": ["medusa"]}},
            "variants.cpu.without: 'medusa' is not in methods",
        ),
        ("start.comand", [], "start.comand: is not a known key. Did you mean 'command'"),
        ("start.command", "vllm serve", "a command is a list of words"),
        ("start.command", ["serve", True], "a command's words are texts and numbers, not True"),
        ("start.command", ["serve"], r"start.command: has no \{port\}"),
        ("start.methods", {"ar": []}, "start.methods: lacks 'dflash'"),
        ("start.matched", {"eagle3": []}, "start.matched: 'eagle3' is not in methods"),
        ("start.variants", {"cuda": {}}, "start.variants: 'cuda' is not one of install.variants"),
        ("methods", {"ar": "surely"}, "methods.ar: "),
        ("install.variants", {}, "install.variants: name at least one"),
        ("ask", None, "ask: is missing"),
        ("health", None, "health: is missing"),
        ("flush", {"path": "/flush", "ok": "("}, "flush.ok: is not a regular expression"),
    ],
)
def test_what_does_not_fit_is_a_sentence(
    tmp_path: Path, where: str, value: Any, sentence: str
) -> None:
    path = written(tmp_path, {**changed(where, value), "name": "small"})
    if where == "name":
        path = written(tmp_path, SMALL)
        path.write_text(path.read_text().replace("name: small", "name: ../up"))
    with pytest.raises(ConfigError, match=sentence) as caught:
        load_recipe(path)
    assert str(path) in caught.value.message
    assert "runners/README.md" in caught.value.remedy


def test_an_environment_is_another_one_if_its_packages_are(tmp_path: Path) -> None:
    before = small(tmp_path)
    flags = small(tmp_path, start={**SMALL["start"], "dtype": {}})
    packages = small(
        tmp_path,
        install={**SMALL["install"], "variants": {"cpu": {"requirements": ["six==1.17.0"]}}},
    )
    assert flags.install_digest("cpu") == before.install_digest("cpu")
    assert flags.digest != before.digest
    assert packages.install_digest("cpu") != before.install_digest("cpu")
