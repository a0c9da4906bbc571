"""A workload is found by its bare name or its path, and a mistake in it is named."""

import re
from pathlib import Path

import pytest

from dflash_bench.assets import names
from dflash_bench.errors import ConfigError
from dflash_bench.plan import workload_name
from dflash_bench.workloads.workload import load_workload

MINE = """
name: mine
title: Mine
version: 1
licence: MIT
source: {path: rows.jsonl}
"""


def written(folder: Path, text: str, name: str = "mine.yaml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", names("workloads"))
def test_every_workload_of_ours_is_valid_and_has_a_filler(name: str) -> None:
    workload = load_workload(name)
    assert workload.name == name
    assert workload.filler is not None


@pytest.mark.parametrize("name", ["gsm8k", "humaneval", "math500", "mbpp", "mt-bench"])
def test_hub_revisions_are_pinned_to_a_commit(name: str) -> None:
    hub = load_workload(name).source.hub
    assert hub is not None
    assert re.fullmatch(r"[0-9a-f]{40}", hub.revision)


@pytest.mark.parametrize("name", ["sample-math", "sample-code", "sample-chat"])
def test_samples_need_no_hub(name: str) -> None:
    workload = load_workload(name)
    assert workload.source.hub is None
    assert workload.filler is not None
    assert workload.filler.hub is None


def test_paths_of_a_users_yaml_are_beside_it(tmp_path: Path) -> None:
    assert load_workload(written(tmp_path, MINE)).source.path == str(tmp_path / "rows.jsonl")


@pytest.mark.parametrize(("file", "name"), [("mine.jsonl", "mine"), ("my set.json", "my set")])
def test_a_file_of_prompts_is_a_workload(tmp_path: Path, file: str, name: str) -> None:
    workload = load_workload(written(tmp_path, '{"prompt": "Hi"}', file))
    assert (workload.name, workload.template, workload.filler) == (name, None, None)


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"no workload 'gms8k'\. Did you mean 'gsm8k'"):
        load_workload("gms8k")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MINE + "templat: x\n", "templat: is not a known key. Did you mean 'template'"),
        (MINE.replace("path:", "paht:"), "source.paht: is not a known key"),
        (MINE.replace("version: 1", ""), "version: is missing"),
        (
            MINE.replace("{path: rows.jsonl}", "{url: x}"),
            "give at least one of files, path and hub",
        ),
        (MINE.replace("name: mine", "name: other"), "'other' is not the file's name"),
        (MINE + "filler: {path: x, template: x, drop: '('}\n", "is not a regular expression"),
        (MINE + "answer: {field: a, after: ''}\n", r"answer.after: must not be empty; found ''"),
        (MINE + "stop: ['']\n", r"stop.0: must not be empty; found ''"),
        (MINE + "template: ''\n", r"template: must not be empty"),
        (MINE + 'stop: ["\\ud800"]\n', r"stop.0: holds a character that is not Unicode"),
        (MINE + "path: /etc/passwd\n", "path: is not a known key"),
        (MINE + "_path: /etc/passwd\n", "_path: is not a known key"),
    ],
)
def test_a_mistake_in_the_yaml_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_workload(written(tmp_path, text))


def test_a_missing_or_foreign_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        load_workload(str(tmp_path / "none.jsonl"))
    with pytest.raises(ConfigError, match="neither a workload"):
        load_workload(written(tmp_path, "a,b", "mine.csv"))


def test_a_workload_knows_the_file_that_it_was_loaded_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("mine.yaml", MINE), ("prompts.jsonl", '{"prompt": "Hi"}')):
        written(tmp_path, text, name)
        assert load_workload(f"./{name}").path == str(tmp_path / name)
    ours = Path(load_workload("gsm8k").path)
    assert ours.is_absolute()
    assert ours.is_file()


def test_a_name_ends_at_the_first_dot_as_in_the_plan(tmp_path: Path) -> None:
    yaml = written(tmp_path, MINE, "mine.v2.yaml")
    prompts = written(tmp_path, '{"prompt": "Hi"}', "mine.v2.jsonl")
    for path in (yaml, prompts):
        assert load_workload(path).name == workload_name(path) == "mine"
    with pytest.raises(ConfigError, match=r"'mine\.v2' is not the file's name") as caught:
        load_workload(written(tmp_path, MINE.replace(": mine", ": mine.v2", 1), "mine.v2.yaml"))
    assert "`name: mine`" in caught.value.remedy


@pytest.mark.parametrize("name", [".jsonl", ".yaml", ".jsonl.gz"])
def test_a_file_without_a_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="has no name before its ending"):
        load_workload(written(tmp_path, MINE, name))
