"""`report` derives everything from the manifest and the records, and says when these cannot be trusted."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dflash_bench.cli import main_group
from dflash_bench.errors import BenchError
from dflash_bench.plan import make_plan
from dflash_bench.run.experiment import Experiment, run
from dflash_bench.run.observer import Silent
from dflash_bench.spec import load_spec
from tests.fakes.scripted import Scripted, write_spec


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, not reported yet."""
    folder = tmp_path_factory.mktemp("made")
    path = write_spec(folder)
    spec = load_spec(path)
    runner = Scripted(spec)
    run(Experiment(spec, make_plan(spec, runner.refusal), runner, folder / "out", path), Silent())
    return folder / "out"


@pytest.fixture
def results(made: Path, tmp_path: Path) -> Path:
    """A copy of the finished run that a test may damage."""
    return Path(shutil.copytree(made, tmp_path / "out"))


def report(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main_group, ["report", str(folder), *words], standalone_mode=False)


def edit_records(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "records.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        change(line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def edit_manifest(folder: Path, **changes: Any) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_the_plan_is_derived_too(results: Path) -> None:
    before = (results / "plan.json").read_bytes()
    (results / "plan.json").unlink()
    assert report(results).return_value == 0
    assert (results / "plan.json").read_bytes() == before


def test_an_edited_plan_is_not_believed(results: Path) -> None:
    plan = json.loads((results / "plan.json").read_text())
    (results / "plan.json").write_text(json.dumps(plan | {"baseline": "dflash-b4"}))
    assert "DFlash helps" in report(results).output


def test_records_that_contradict_themselves_prove_nothing(results: Path) -> None:
    def triple_the_window(line: dict[str, Any]) -> None:
        if line["kind"] == "visit_end" and line["visit"].endswith("dflash-b4"):
            line["window_wall_s"] *= 3

    edit_records(results, triple_the_window)
    done = report(results)
    assert done.return_value == 7
    assert "INVALID: dflash-b4 in mine.b1.t0" in done.output
    assert "DFlash is not proven to help" in done.output


def test_a_lossy_arm_may_change_the_text_and_is_called_so(results: Path) -> None:
    def change_a_token(line: dict[str, Any]) -> None:
        if line["kind"] == "request" and line["visit"].endswith("dflash-b4"):
            line["output_ids"][3] += 1

    edit_records(results, change_a_token)
    records = results / "records.jsonl"
    records.write_text(records.read_text().replace("mine.b1.t0", "mine.b1.t1"))
    spec = json.loads((results / "manifest.json").read_text())["spec"]
    spec["arms"]["dflash"] |= {"method": "medusa", "verify": "typical"}
    edit_manifest(results, spec=spec | {"sweep": spec["sweep"] | {"temperature": [1.0]}})
    done = report(results)
    assert done.return_value == 0
    assert "dflash-b4 (LOSSY) against ar" in done.output
    assert "Only LOSSY arms were measured: dflash-b4." in done.output
    page = (results / "report.html").read_text()
    assert "<dd>dflash-b4 (LOSSY)</dd>" in page
    assert "No arm here promises ar's very text." in page


def test_outputs_that_differ_are_said_and_prove_nothing(results: Path) -> None:
    def change_a_token(line: dict[str, Any]) -> None:
        if line["kind"] == "request" and line["visit"].endswith("dflash-b4"):
            line["output_ids"][3] += 1

    edit_records(results, change_a_token)
    done = report(results)
    assert done.return_value == 7
    assert "24 of 24 outputs differ from the baseline's." in done.output
    assert "DFlash is not proven to help" in done.output


@pytest.mark.parametrize("name", ["records.jsonl", "manifest.json", "cells.json"])
def test_a_page_never_overwrites_what_a_folder_needs(results: Path, name: str) -> None:
    before = (results / "records.jsonl").read_bytes()
    done = report(results, "-o", str(results / name))
    assert isinstance(done.exception, BenchError)
    assert "needs itself" in done.exception.message
    assert (results / "records.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "changes", [{"spec": {}}, {"spec": 1}, {"spec": None}, {"schema_version": 9}]
)
def test_a_damaged_manifest_is_a_sentence(results: Path, changes: dict[str, Any]) -> None:
    edit_manifest(results, **changes)
    assert isinstance(report(results).exception, BenchError)


@pytest.mark.parametrize(
    ("key", "value"),
    [("ttft_s", "x"), ("window", [1]), ("request", {}), ("steps", {"drafted": 1}), ("visit", [1])],
)
def test_a_damaged_record_is_a_sentence(results: Path, key: str, value: Any) -> None:
    def damage(line: dict[str, Any]) -> None:
        if line["kind"] == "request":
            line[key] = value

    edit_records(results, damage)
    assert isinstance(report(results).exception, BenchError)


def test_a_file_is_no_results_folder(results: Path) -> None:
    done = report(results / "manifest.json")
    assert isinstance(done.exception, BenchError)
    assert "not a results folder" in done.exception.message
