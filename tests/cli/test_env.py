"""`dflash-bench env`: create, list, remove, from a recipe of the user's and without a network."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from dflash_bench.cli import env
from dflash_bench.errors import ConfigError

RECIPE = {
    "name": "mine",
    "title": "a backend of mine",
    "kind": "openai",
    "targets": "none",
    "install": {"variants": {"cpu": {}}, "version": ["python", "-c", "print('0.1')"]},
    "ask": {"dialect": "openai"},
}


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("DFLASH_BENCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def run(*words: str) -> Result:
    done = CliRunner().invoke(env.command, words)
    if isinstance(done.exception, Exception):
        raise done.exception
    return done


def test_an_environment_is_created_listed_and_removed(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(RECIPE))
    made = run("create", str(path), "--variant", "cpu")
    assert made.stdout == f"mine 0.1 (cpu) in {home / 'envs' / 'mine'}\n"
    assert "-m venv" in made.stderr
    shown = run("list").stdout.split()
    assert shown[:3] == ["mine", "0.1", "cpu"]
    assert "removed" in run("remove", "mine").stderr
    assert not (home / "envs" / "mine").exists()
    assert "no environments in" in run("list").stderr


def test_a_half_made_environment_is_listed_as_such(home: Path) -> None:
    folder = home / "envs" / "vllm"
    folder.mkdir(parents=True)
    (folder / ".dflash-bench-env").touch()
    assert run("list").stdout.startswith("vllm  half-made")


def test_a_recipe_that_is_not_there_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="no recipe 'refrence'") as caught:
        run("create", "refrence")
    assert "reference" in caught.value.remedy


def test_our_own_engine_needs_no_environment() -> None:
    with pytest.raises(ConfigError, match="reference has no environment of its own") as caught:
        run("create", "reference")
    assert "pip install" in caught.value.message
