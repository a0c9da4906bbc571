"""The command line as a user meets it: what is printed where, and the exit code."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.scripted import write_spec

ROOT = Path(__file__).resolve().parents[2]


def bench(*words: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run the command line with the scripted runner in it."""
    return subprocess.run(
        [sys.executable, "-m", "tests.fakes.cli", *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
    )


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A finished sweep: its folder, and what it printed."""
    folder = tmp_path_factory.mktemp("swept")
    done = bench("sweep", write_spec(folder), "-o", folder / "out")
    assert done.returncode == 0, done.stderr
    return folder / "out", done.stdout


def test_a_sweep_leaves_the_six_files_and_says_where_the_report_lies(
    swept: tuple[Path, str],
) -> None:
    folder, printed = swept
    assert {path.name for path in folder.iterdir()} == {
        "manifest.json",
        "plan.json",
        "records.jsonl",
        "cells.json",
        "verdicts.json",
        "report.html",
    }
    assert str(folder / "report.html") in printed
    assert "HELPS" in printed or "helps" in printed


def test_the_scripted_speedup_is_found(swept: tuple[Path, str]) -> None:
    folder, _ = swept
    cells = json.loads((folder / "cells.json").read_text())
    arm = next(cell for cell in cells if cell["arm"] == "dflash-b4")
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    seconds, tokens = {"ar": 0.0, "dflash-b4": 0.0}, {"ar": 0, "dflash-b4": 0}
    for line in lines:
        name = line["visit"].split("/")[-1]
        if line["kind"] == "request" and "/r1/" in line["visit"]:
            phases = [line["window"][key] for key in line["window"] if key.endswith("_s")]
            seconds[name] += sum(phase for phase in phases if phase is not None)
            tokens[name] += line["window"]["tokens"]
    expected = (seconds["ar"] / tokens["ar"]) / (seconds["dflash-b4"] / tokens["dflash-b4"])
    assert arm["speedup"]["value"] == pytest.approx(expected, rel=1e-5)


def test_what_is_derived_comes_back_the_same_from_the_records(swept: tuple[Path, str]) -> None:
    folder, _ = swept
    derived = {name: (folder / name).read_bytes() for name in ("cells.json", "verdicts.json")}
    derived["report.html"] = (folder / "report.html").read_bytes()
    for name in derived:
        (folder / name).unlink()
    done = bench("report", folder)
    assert done.returncode == 0, done.stderr
    assert {name: (folder / name).read_bytes() for name in derived} == derived


def test_a_dry_run_writes_nothing_and_needs_no_engine(tmp_path: Path) -> None:
    done = bench("sweep", write_spec(tmp_path), "--dry-run", "-o", tmp_path / "out")
    assert done.returncode == 0
    assert "1 cells x 2 arms x 4 rounds = 8 measured visits" in done.stdout
    assert not (tmp_path / "out").exists()


def test_a_dry_run_in_json_is_the_plan(tmp_path: Path) -> None:
    done = bench("sweep", write_spec(tmp_path), "--dry-run", "--format", "json")
    assert json.loads(done.stdout)["visits"][0]["role"] == "control_first"


def test_prompts_on_the_command_line_override_the_spec(tmp_path: Path) -> None:
    done = bench("sweep", write_spec(tmp_path), "--prompts", "2", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["prompts"]["mine"]["prompts"] == 2


def test_json_on_stdout_is_json_and_nothing_else(tmp_path: Path) -> None:
    done = bench("sweep", write_spec(tmp_path), "-o", tmp_path / "out", "--format", "json")
    assert json.loads(done.stdout)["cells"]


def test_failed_requests_end_with_exit_code_7(tmp_path: Path) -> None:
    done = bench("sweep", write_spec(tmp_path, target="failing"), "-o", tmp_path / "out")
    assert done.returncode == 7, done.stderr


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"runner": "refernce"}, 2, ["'refernce'", "Did you mean 'reference'?"]),
        ({"workloads": ["gsm9k"]}, 2, ["'gsm9k'", "Did you mean 'gsm8k'?"]),
        ({"workloads": ["./absent.jsonl"]}, 2, ["absent.jsonl"]),
        ({"sweep": {"batch_size": [0]}}, 2, ["sweep.batch_size.0", "found 0"]),
        ({"target": "absent"}, 6, ["'absent'"]),
    ],
)
def test_bad_input_is_one_sentence_and_a_remedy(
    tmp_path: Path, changes: dict[str, Any], code: int, words: list[str]
) -> None:
    done = bench("sweep", write_spec(tmp_path, **changes), "-o", tmp_path / "out")
    assert done.returncode == code
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ")
    assert "\nremedy: " in done.stderr
    for word in words:
        assert word in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("rows", ["", "{}\n", '{"text": "a"}\n{"text": \n'])
def test_a_bad_prompt_file_is_named_with_its_line(tmp_path: Path, rows: str) -> None:
    path = write_spec(tmp_path)
    (tmp_path / "mine.jsonl").write_text(rows)
    done = bench("sweep", path, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "mine.jsonl" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_in_use_is_not_touched(swept: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = swept
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = bench("sweep", write_spec(tmp_path), "-o", folder)
    assert done.returncode == 2
    assert "holds a run already" in done.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_report_of_no_results_folder_is_refused(tmp_path: Path) -> None:
    done = bench("report", tmp_path)
    assert done.returncode == 2
    assert "not a results folder" in done.stderr


def test_an_unknown_verb_is_refused_with_a_suggestion() -> None:
    done = bench("swep")
    assert done.returncode == 2
    assert "Did you mean 'sweep'?" in done.stderr


def test_an_interrupt_ends_with_130_and_says_how_to_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    command = [sys.executable, "-m", "tests.fakes.cli", "sweep"]
    command += [str(write_spec(tmp_path, target="slow")), "-o", str(folder)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts what runs in the background with interrupts ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not (folder / "records.jsonl").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate()
    assert process.returncode == 130
    assert "--resume" in printed
    assert "Traceback" not in printed
