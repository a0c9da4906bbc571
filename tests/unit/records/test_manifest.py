"""A folder says what it is, and notices when another run wants to go on in it."""

from pathlib import Path
from typing import Any

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.records.manifest import differences, read_json, read_manifest, write_json


def manifest(**changes: Any) -> dict[str, Any]:
    base = {
        "schema_version": 1,
        "spec": {"name": "x", "sweep": {"batch_size": [1]}},
        "machine": {"cpu": "a", "load_average": [1, 2, 3]},
        "argv": ["sweep"],
    }
    return base | changes


def test_the_same_question_on_the_same_machine_does_not_differ() -> None:
    here = manifest(argv=["sweep", "--resume"], machine={"cpu": "a", "load_average": [0, 0, 0]})
    assert differences(manifest(), here) == []


def test_tuples_equal_the_lists_that_they_become_on_disk() -> None:
    assert (
        differences(manifest(), manifest(spec={"name": "x", "sweep": {"batch_size": (1,)}})) == []
    )


def test_what_differs_is_named_with_both_values() -> None:
    here = manifest(spec={"name": "x", "sweep": {"batch_size": [2]}}, machine={"cpu": "b"})
    assert differences(manifest(), here) == [
        "spec.sweep.batch_size was [1], is [2]",
        "machine.cpu was 'a', is 'b'",
    ]


def test_a_written_file_reads_back(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"x": [1, None, "ü"]})
    assert read_json(tmp_path / "a.json") == {"x": [1, None, "ü"]}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_nan_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": float("nan")})


def test_a_folder_that_is_no_results_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a results folder"):
        read_manifest(tmp_path)


def test_a_manifest_of_a_later_schema_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path / "manifest.json", manifest(schema_version=2))
    with pytest.raises(ConfigError, match="schema_version is 2"):
        read_manifest(tmp_path)


def test_a_damaged_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(ConfigError, match="is not JSON"):
        read_manifest(tmp_path)
