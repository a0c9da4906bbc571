"""A report is what the results folder holds, and nothing that it does not."""

import pytest

from dflash_bench.report.row import Row
from tests.unit.report.results import make_result, of_many_methods


def test_every_entry_becomes_a_row() -> None:
    report = make_result().report
    assert len(report.rows) == 2 * 2 * 4
    assert report.arms == ("dflash-b4", "dflash-b8", "dflash-b16")


def test_the_answer_is_the_verdicts_headline() -> None:
    result = make_result()
    result.verdicts["headline"] = {"verdict": "HURTS", "sentence": "It hurts."}
    assert (result.report.verdict, result.report.sentence) == ("HURTS", "It hurts.")


def test_without_a_headline_nothing_is_claimed() -> None:
    result = make_result()
    result.verdicts = {}
    assert result.report.verdict == "UNPROVEN"
    assert result.report.drift is None


def test_the_command_names_the_program_not_its_path() -> None:
    result = make_result()
    result.manifest["argv"] = ["/x y/bin/dflash-bench", "sweep", "my file.yaml"]
    assert result.report.command == "dflash-bench sweep 'my file.yaml'"


def test_arguments_without_the_program_get_it() -> None:
    result = make_result()
    result.manifest["argv"] = ["sweep", "a.yaml"]
    assert result.report.command == "dflash-bench sweep a.yaml"


@pytest.mark.parametrize(
    ("target", "small"), [("lab", True), ("markov", True), ("Qwen/Qwen3-8B", False)]
)
def test_only_our_own_models_are_called_small(target: str, small: bool) -> None:
    assert make_result(target=target).report.small_models is small


def test_one_simulated_cell_makes_the_report_simulated() -> None:
    result = make_result()
    assert not result.report.simulated
    result.cells[3]["simulated"] = True
    assert result.report.simulated


def test_arms_are_named_by_block_where_that_tells_them_apart() -> None:
    report = make_result().report
    assert report.arm_label("dflash-b8") == "block 8"
    assert report.arm_label("ar") == "ar"


def test_arms_of_equal_block_keep_their_names() -> None:
    result = make_result(blocks=(8,))
    other = result.plan.arms["dflash-b8"].model_copy(update={"name": "other-b8"})
    arms = {**result.plan.arms, "other-b8": other}
    result.plan = result.plan.model_copy(update={"arms": arms})
    assert result.report.arm_label("dflash-b8") == "dflash-b8"


def test_arms_that_cannot_be_told_from_the_best_are_marked() -> None:
    result = make_result()
    result.verdicts["best_arms"] = {"sample-math.b1.t0": ["dflash-b4", "dflash-b8"]}
    report = result.report
    best: list[Row] = [row for row in report.rows if report.is_among_best(row)]
    assert [(row.cell.id, row.arm) for row in best] == [
        ("sample-math.b1.t0", "dflash-b4"),
        ("sample-math.b1.t0", "dflash-b8"),
    ]


def test_an_old_manifest_without_its_open_parts_still_reads() -> None:
    result = make_result()
    result.manifest = {"schema_version": 1, "spec": result.manifest["spec"]}
    report = result.report
    assert (report.prompts, report.provenance, report.started) == ((), {}, None)
    assert report.command == "dflash-bench"


def test_arms_of_several_methods_keep_their_names_and_a_lossy_one_its_label() -> None:
    report = of_many_methods().report
    labels = [report.arm_label(name) for name in report.arms]
    assert labels[0] == "dflash-b16"
    assert labels[5] == "medusa-typical (LOSSY)"
    assert report.lossy_arms == ("medusa-typical",)
