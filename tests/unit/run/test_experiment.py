"""A run writes what its plan says, once, and goes on where it was broken off."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.errors import ConfigError, InfrastructureError
from dflash_bench.plan import Plan, Visit, make_plan
from dflash_bench.records.manifest import planned, read_manifest
from dflash_bench.records.store import FILE, finished_visits, read_lines
from dflash_bench.run.experiment import Experiment, run
from dflash_bench.run.observer import Silent
from dflash_bench.spec import load_spec
from tests.fakes.scripted import Scripted, write_spec

ROOT = Path(__file__).resolve().parents[3]


def experiment(folder: Path, **changes: Any) -> Experiment:
    path = write_spec(folder, **changes)
    spec = load_spec(path)
    runner = Scripted(spec)
    return Experiment(spec, make_plan(spec, runner.refusal), runner, folder / "out", path)


def requests_by_visit(folder: Path) -> dict[str, list[str]]:
    """Return the requests of every finished visit, of the attempt that finished."""
    lines = list(read_lines(folder))
    ended = {(line["visit"], line["attempt"]) for line in lines if line["kind"] == "visit_end"}
    found: dict[str, list[str]] = {visit: [] for visit, _ in ended}
    for line in lines:
        if line["kind"] == "request" and (line["visit"], line["attempt"]) in ended:
            found[line["visit"]].append(line["request"])
    return found


def test_every_visit_of_the_plan_is_made_once_and_asks_every_prompt(tmp_path: Path) -> None:
    made = experiment(tmp_path)
    run(made, Silent())
    found = requests_by_visit(made.folder)
    assert list(found.keys() - {visit.id for visit in made.plan.visits}) == []
    assert set(map(tuple, found.values())) == {tuple(f"p{n}" for n in range(6))}
    order = [line["visit"] for line in read_lines(made.folder) if line["kind"] == "visit_start"]
    assert order == [visit.id for visit in made.plan.visits]


def test_the_plan_on_disk_is_the_plan(tmp_path: Path) -> None:
    made = experiment(tmp_path)
    run(made, Silent())
    on_disk = json.loads((made.folder / "plan.json").read_text())
    assert Plan.model_validate(on_disk) == made.plan
    assert planned(read_manifest(made.folder)) == made.plan


def test_the_discarded_round_may_be_shorter(tmp_path: Path) -> None:
    design = {"prompts": 6, "rounds": 1, "warmup_prompts": 2}
    made = experiment(tmp_path, design=design)
    run(made, Silent())
    lengths = Counter(
        (visit.role, len(requests_by_visit(made.folder)[visit.id])) for visit in made.plan.visits
    )
    assert lengths == {
        ("control_first", 6): 1,
        ("discard", 2): 2,
        ("measure", 6): 2,
        ("control_last", 6): 1,
    }


def test_a_folder_that_holds_a_run_is_refused_without_resume(tmp_path: Path) -> None:
    made = experiment(tmp_path)
    run(made, Silent())
    before = (made.folder / FILE).read_bytes()
    with pytest.raises(ConfigError, match="holds a run already"):
        run(made, Silent())
    assert (made.folder / FILE).read_bytes() == before


def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    made = experiment(tmp_path)
    made.folder.mkdir()
    (made.folder / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="is not a results folder"):
        run(made, Silent(), resume=True)


@pytest.mark.parametrize("left", [[], ["manifest.json.part"]])
def test_a_folder_of_a_run_that_never_began_can_be_used(tmp_path: Path, left: list[str]) -> None:
    made = experiment(tmp_path)
    made.folder.mkdir()
    for name in left:
        (made.folder / name).write_text("{")
    run(made, Silent(), resume=True)
    assert requests_by_visit(made.folder)


def test_a_stop_before_the_plan_was_written_is_resumed(tmp_path: Path) -> None:
    made = experiment(tmp_path)
    run(made, Silent())
    for name in ("plan.json", FILE):
        (made.folder / name).unlink()
    run(made, Silent(), resume=True)
    assert len(requests_by_visit(made.folder)) == len(made.plan.visits)


def test_a_finished_run_resumed_does_nothing(tmp_path: Path) -> None:
    made = experiment(tmp_path)
    run(made, Silent())
    before = (made.folder / FILE).read_bytes()
    run(made, Silent(), resume=True)
    assert (made.folder / FILE).read_bytes() == before


def test_another_spec_is_refused_on_resume_with_what_differs(tmp_path: Path) -> None:
    run(experiment(tmp_path), Silent())
    other = experiment(tmp_path, sampling={"max_new_tokens": 7})
    with pytest.raises(ConfigError, match=r"sampling\.max_new_tokens was 128, is 7"):
        run(other, Silent(), resume=True)


def test_changed_prompts_are_refused_on_resume(tmp_path: Path) -> None:
    made = experiment(tmp_path)
    run(made, Silent())
    (tmp_path / "mine.jsonl").write_text(json.dumps({"text": "another question"}) + "\n")
    with pytest.raises(ConfigError, match=r"holds another run: prompts\.mine"):
        run(made, Silent(), resume=True)


def test_a_changed_stop_rule_is_refused_on_resume(tmp_path: Path) -> None:
    def own_workload(stop: str) -> None:
        source = "source: {path: mine.jsonl}"
        text = f"name: own\ntitle: mine\nversion: 1\nlicence: none\n{source}\nstop: [{stop}]\n"
        (tmp_path / "own.yaml").write_text(text)

    own_workload("zzz")
    made = experiment(tmp_path, workloads=["./own.yaml"])
    run(made, Silent())
    own_workload("a")
    with pytest.raises(ConfigError, match=r"holds another run: prompts\.own\.stop"):
        run(made, Silent(), resume=True)


def test_nothing_is_written_when_the_target_cannot_be_loaded(tmp_path: Path) -> None:
    made = experiment(tmp_path, target="absent")
    with pytest.raises(InfrastructureError, match="'absent' cannot be loaded"):
        run(made, Silent())
    assert not made.folder.exists()


def test_a_context_longer_than_the_model_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    made = experiment(tmp_path, sweep={"block_size": [4], "context_length": [4000]})
    with pytest.raises(ConfigError, match=r"sweep\.context_length: 4000 .* 4096 positions"):
        run(made, Silent())
    assert not made.folder.exists()


def test_a_failed_request_is_a_record_with_an_error(tmp_path: Path) -> None:
    made = experiment(tmp_path, target="failing")
    run(made, Silent())
    lines = [line for line in read_lines(made.folder) if line["kind"] == "request"]
    assert {line["error"] for line in lines} == {None, "scripted failure"}
    ends = [line for line in read_lines(made.folder) if line["kind"] == "visit_end"]
    assert {(line["requests"], line["failed"]) for line in ends} == {(6, 2)}


class Listener(Silent):
    """Keeps what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def says(self, sentence: str) -> None:
        self.said.append(sentence)


def test_fewer_prompts_than_asked_for_are_told(tmp_path: Path) -> None:
    listener = Listener()
    run(experiment(tmp_path, design={"prompts": 9, "rounds": 1}), listener)
    assert listener.said == ["mine: has 6 prompts, fewer than the 9 asked for."]


class StopAfter(Silent):
    """Stands for Ctrl-C: interrupts after so many answers."""

    def __init__(self, answers: int) -> None:
        self._left = answers

    def answered(self, visit: Visit) -> None:
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("answers", [1, 6, 7, 30, 59])
def test_an_interrupted_run_resumed_equals_an_unbroken_one(tmp_path: Path, answers: int) -> None:
    broken = experiment(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(broken, StopAfter(answers))
    run(broken, Silent(), resume=True)
    whole = Experiment(
        broken.spec, broken.plan, broken.runner, tmp_path / "whole", broken.spec_path
    )
    run(whole, Silent())
    assert requests_by_visit(broken.folder) == requests_by_visit(whole.folder)


def test_a_run_killed_outright_is_finished_by_resume(tmp_path: Path) -> None:
    path = write_spec(tmp_path, target="slow")
    command = [sys.executable, "-m", "tests.fakes.cli", "sweep", str(path), "-o"]
    folder = tmp_path / "out"
    process = subprocess.Popen([*command, str(folder)], cwd=ROOT, stderr=subprocess.DEVNULL)
    while not (folder / FILE).exists() or (folder / FILE).stat().st_size < 9000:
        time.sleep(0.01)
        assert process.poll() is None, "the run must still be going when it is killed"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    plan = planned(read_manifest(folder))
    ended, _ = finished_visits(read_lines(folder))
    assert 0 < len(ended) < len(plan.visits)

    subprocess.run([*command, str(folder), "--resume"], cwd=ROOT, check=True, capture_output=True)
    ended, attempts = finished_visits(read_lines(folder))
    assert ended == {visit.id for visit in plan.visits}
    assert sum(attempts.values()) in (len(plan.visits), len(plan.visits) + 1)
    assert {len(requests) for requests in requests_by_visit(folder).values()} == {6}
