"""A runner is found by name and imported on use."""

from pathlib import Path

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.runners.registry import make_runner
from dflash_bench.spec import load_spec
from tests.fakes.scripted import Scripted, write_spec
from tests.unit.runners.recipes import SMALL, written


def test_a_runner_from_outside_is_found(tmp_path: Path) -> None:
    assert isinstance(make_runner(load_spec(write_spec(tmp_path))), Scripted)


@pytest.mark.parametrize("name", ["base", "launch", "no-module", "nobody"])
def test_a_recipe_that_nothing_drives_is_a_sentence(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, {**SMALL, "name": name, "kind": "worker"})
    with pytest.raises(ConfigError, match=f"needs a runner dflash_bench/runners/{name}.py"):
        make_runner(load_spec(write_spec(tmp_path, runner=str(path))))


def test_a_recipe_of_another_kind_than_its_runner_drives_is_a_sentence(tmp_path: Path) -> None:
    path = written(tmp_path, {**SMALL, "name": "vllm", "kind": "worker"})
    with pytest.raises(ConfigError, match="the runner vllm drives kind server"):
        make_runner(load_spec(write_spec(tmp_path, runner=str(path))))


def test_an_unknown_runner_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no runner 'refrence'") as caught:
        make_runner(load_spec(write_spec(tmp_path, runner="refrence")))
    assert "Did you mean 'reference'?" in caught.value.remedy


def test_an_unknown_method_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    arms = {"ar": {"method": "ar"}, "fast": {"method": "dflsh", "draft": "lab"}}
    with pytest.raises(ConfigError, match=r"arms\.fast\.method: .* no method 'dflsh'") as caught:
        make_runner(load_spec(write_spec(tmp_path, runner="reference", arms=arms)))
    assert "Did you mean 'dflash'?" in caught.value.remedy


def test_a_method_without_its_drafter_is_refused(tmp_path: Path) -> None:
    arms = {"ar": {"method": "ar"}, "fast": {"method": "dflash"}}
    with pytest.raises(ConfigError, match=r"arms\.fast\.draft: is missing"):
        make_runner(load_spec(write_spec(tmp_path, runner="reference", arms=arms)))


@pytest.mark.parametrize(
    ("key", "value"), [("base_url", "http://127.0.0.1:1"), ("server", {"flags": ["--x"]})]
)
def test_our_own_engine_is_no_server(tmp_path: Path, key: str, value: object) -> None:
    arms = {"ar": {"method": "ar"}, "fast": {"method": "dflash", "draft": "lab"}}
    path = write_spec(tmp_path, runner="reference", arms=arms, **{key: value})
    with pytest.raises(ConfigError, match=f"{key}: is for servers"):
        make_runner(load_spec(path))
