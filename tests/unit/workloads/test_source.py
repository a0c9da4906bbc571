"""Rows come from the user's folder first, then from a file beside the YAML, then from the hub."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dflash_bench.errors import ConfigError, InfrastructureError
from dflash_bench.workloads.source import DATA_VARIABLE, source_rows
from dflash_bench.workloads.workload import Hub, Select, Source

HUB = Hub(id="some/set", split="test", revision="0" * 40, rename={"prompt": "turns"})


@pytest.fixture(autouse=True)
def no_data_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)


def written(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def places(source: Source, data_dir: Path | None) -> list[Any]:
    return [row.fields["from"] for row in source_rows(source, str(data_dir) if data_dir else None)]


def with_hub(monkeypatch: pytest.MonkeyPatch, load: Any) -> None:
    package, exceptions = ModuleType("datasets"), ModuleType("datasets.exceptions")
    monkeypatch.setattr(package, "load_dataset", load, raising=False)
    monkeypatch.setattr(
        exceptions, "DatasetsError", type("DatasetsError", (Exception,), {}), raising=False
    )
    monkeypatch.setitem(sys.modules, "datasets", package)
    monkeypatch.setitem(sys.modules, "datasets.exceptions", exceptions)


def test_data_dir_comes_before_the_variable_and_that_before_the_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = written(tmp_path / "own.jsonl", {"from": "own"})
    source = Source(files=("a.jsonl",), path=str(own))
    assert places(source, None) == ["own"]
    monkeypatch.setenv(
        DATA_VARIABLE, str(written(tmp_path / "v" / "a.jsonl", {"from": "v"}).parent)
    )
    assert places(source, None) == ["v"]
    folder = written(tmp_path / "d" / "a.jsonl", {"from": "d"}).parent
    assert places(source, folder) == ["d"]


def test_data_dir_may_be_the_file_itself(tmp_path: Path) -> None:
    file = written(tmp_path / "any-name.jsonl", {"from": "file"})
    assert places(Source(files=("a.jsonl",)), file) == ["file"]


def test_data_dir_does_not_touch_a_source_that_names_no_file_in_it(tmp_path: Path) -> None:
    own = written(tmp_path / "own.jsonl", {"from": "own"})
    other = written(tmp_path / "other.jsonl", {"from": "other"})
    assert places(Source(path=str(own)), other) == ["own"]


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="data_dir: there is no file or folder"):
        places(Source(files=("a.jsonl",), hub=HUB), tmp_path / "none")


def test_no_file_and_no_hub_is_refused_with_the_name_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"found no a\.jsonl") as caught:
        places(Source(files=("a.jsonl",)), tmp_path)
    assert DATA_VARIABLE in caught.value.remedy


def test_rows_are_selected_by_their_number(tmp_path: Path) -> None:
    rows = [{"from": number, "n": number} for number in range(6)]
    file = written(tmp_path / "a.jsonl", *rows)
    source = Source(path=str(file), select=Select(field="n", first=2, last=4))
    assert places(source, None) == [2, 3, 4]


def test_a_row_without_the_number_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", {"from": 1})
    with pytest.raises(ConfigError, match="line 1: 'n' is not a whole number"):
        places(Source(path=str(file), select=Select(field="n", first=2, last=4)), None)


def test_hub_rows_have_the_authors_field_names(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def load(*names: Any, **options: Any) -> list[dict[str, Any]]:
        asked.append((names, options))
        return [{"prompt": ["Hi"]}]

    with_hub(monkeypatch, load)
    [row] = source_rows(Source(files=("a.jsonl",), hub=HUB), None)
    assert row.fields == {"turns": ["Hi"]}
    assert asked == [(("some/set", None), {"split": "test", "revision": "0" * 40})]


def test_without_network_the_error_says_how_to_give_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*names: Any, **options: Any) -> None:
        raise ConnectionError("Couldn't reach the Hub")

    with_hub(monkeypatch, load)
    with pytest.raises(InfrastructureError, match=r"some/set: .*Couldn't reach") as caught:
        list(source_rows(Source(files=("a.jsonl",), hub=HUB), None))
    assert "a.jsonl" in caught.value.remedy
    assert "data_dir" in caught.value.remedy


def test_without_datasets_the_error_names_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InfrastructureError, match="`datasets` is not installed") as caught:
        list(source_rows(Source(files=("a.jsonl",), hub=HUB), None))
    assert "a.jsonl" in caught.value.remedy
    assert "pip install 'datasets>=4'" in caught.value.remedy
