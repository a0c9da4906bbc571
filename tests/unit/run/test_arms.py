"""Arms on servers: one open at a time, one start for the visits of a round, warm before it is measured."""

from itertools import groupby
from pathlib import Path
from typing import Any

from dflash_bench.plan import make_plan
from dflash_bench.records.manifest import planned, read_manifest
from dflash_bench.records.store import read_lines
from dflash_bench.run.experiment import Experiment, run
from dflash_bench.run.observer import Silent
from dflash_bench.spec import load_spec
from tests.fakes.scripted import Scripted, write_spec


def served(folder: Path, **changes: Any) -> tuple[Experiment, Scripted]:
    path = write_spec(folder, target="server", **changes)
    spec = load_spec(path)
    runner = Scripted(spec)
    plan = make_plan(spec, runner.refusal, runner.nesting, runner.couples_noise)
    return Experiment(spec, plan, runner, folder / "out", path), runner


def test_one_start_serves_all_cells_of_an_arm_in_a_round(tmp_path: Path) -> None:
    made, runner = served(tmp_path, sweep={"block_size": [4], "batch_size": [1, 2, 4]})
    run(made, Silent())
    starts = [visit.start for visit in made.plan.visits]
    assert len([key for key, _ in groupby(starts)]) == len(set(starts)) == 2 + 2 * 5
    assert len(runner.opened) == len(set(starts))
    assert runner.open_now == 0


def test_the_records_name_the_start_of_each_visit(tmp_path: Path) -> None:
    made, _ = served(tmp_path)
    run(made, Silent())
    told = {
        line["visit"]: line["start"]
        for line in read_lines(made.folder)
        if line["kind"] == "visit_start"
    }
    assert told == {visit.id: visit.start for visit in made.plan.visits}
    assert planned(read_manifest(made.folder)) == made.plan


def test_weights_of_another_precision_need_another_start(tmp_path: Path) -> None:
    made, runner = served(
        tmp_path, sweep={"block_size": [4], "target_quantization": ["none", "int8"]}
    )
    assert len(set(made.plan.cells)) == 2
    run(made, Silent())
    assert len(runner.opened) == 2 + 2 * 2 * 5
    for _, visits in groupby(made.plan.visits, key=lambda visit: visit.start):
        cells = [made.plan.cells[visit.cell] for visit in visits]
        assert len({cell.target_quantization for cell in cells}) == 1


def test_a_run_that_was_broken_off_starts_only_what_is_left(tmp_path: Path) -> None:
    made, _ = served(tmp_path)
    run(made, Silent())
    records = made.folder / "records.jsonl"
    lines = records.read_text().splitlines(keepends=True)
    ends = [number for number, line in enumerate(lines) if '"kind":"visit_end"' in line]
    records.write_text("".join(lines[: ends[-3] + 1]))
    again, runner = served(tmp_path)
    run(again, Silent(), resume=True)
    assert len(runner.opened) == 2


def test_every_start_gets_the_same_limits_also_those_of_a_run_that_goes_on(tmp_path: Path) -> None:
    made, runner = served(tmp_path, sweep={"block_size": [4], "batch_size": [1, 4]})
    run(made, Silent())
    limits = {
        (opening.batch_size, opening.positions)
        for opening in runner.openings
        if opening is not None
    }
    assert len(limits) == 1
    assert next(iter(limits))[0] == 4
    records = made.folder / "records.jsonl"
    lines = records.read_text().splitlines(keepends=True)
    ends = [number for number, line in enumerate(lines) if '"kind":"visit_end"' in line]
    records.write_text("".join(lines[: ends[-2] + 1]))  # what is left asks at batch 1
    again, runner = served(tmp_path, sweep={"block_size": [4], "batch_size": [1, 4]})
    run(again, Silent(), resume=True)
    assert {
        (opening.batch_size, opening.positions)
        for opening in runner.openings
        if opening is not None
    } == limits


def test_every_arm_of_a_round_gets_the_same_arrivals(tmp_path: Path) -> None:
    from dflash_bench.run.prepare import prepare
    from dflash_bench.run.questions import Questions

    made, runner = served(tmp_path, sweep={"block_size": [4], "request_rate": [5.0]})
    questions = Questions(made.spec, made.plan, prepare(made.spec, made.plan, runner))
    seeds = {visit.round: questions.load(visit).seed for visit in made.plan.visits}
    assert len(set(seeds.values())) == len(seeds)
    assert all(questions.load(visit).seed == seeds[visit.round] for visit in made.plan.visits)
    assert all(questions.load(visit).request_rate == 5.0 for visit in made.plan.visits)


def test_each_cell_asks_for_answers_of_its_own_length(tmp_path: Path) -> None:
    from dflash_bench.run.prepare import prepare
    from dflash_bench.run.questions import Questions

    made, runner = served(tmp_path, sweep={"block_size": [4], "max_new_tokens": [8, 32]})
    questions = Questions(made.spec, made.plan, prepare(made.spec, made.plan, runner))
    asked = {
        made.plan.cells[visit.cell].max_new_tokens: {
            request.max_new_tokens for request in questions.of(visit)
        }
        for visit in made.plan.visits
    }
    assert asked == {8: {8}, 32: {32}}
