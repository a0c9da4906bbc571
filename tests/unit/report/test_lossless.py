"""Equality is summed over batch sizes, and what was not judged stays unknown."""

from dflash_bench.report.lossless import control, equalities
from tests.unit.report.results import make_result, of_many_methods


def test_counts_are_summed_over_batch_sizes() -> None:
    lines = equalities(make_result().report.groups)
    assert len(lines) == 2 * 3
    assert {(line.compared, line.identical, line.wrong) for line in lines} == {(256, 256, 0)}


def test_a_difference_that_nobody_judged_is_neither_wrong_nor_right() -> None:
    result = make_result()
    result.cells[1]["lossless"] |= {
        "identical": 127,
        "wrong": None,
        "different": 1,
        "first_divergences": [{"request": "p7", "round": 1, "position": 12}],
    }
    line = equalities(result.report.groups)[0]
    assert (line.compared, line.identical) == (256, 255)
    assert (line.wrong, line.near_tie) == (None, None)
    assert line.first_divergence == "p7 at token 12"


def test_the_control_counts_each_cell_once() -> None:
    assert control(make_result().report.groups) == (4 * 96, 4 * 96)


def test_without_comparisons_there_is_nothing_to_tell() -> None:
    result = make_result()
    for entry in result.cells:
        entry["lossless"] = None
    assert equalities(result.report.groups) == []
    assert control(result.report.groups) is None


def test_a_promise_of_the_law_alone_is_told_as_such() -> None:
    lines = {line.arm: line for line in equalities(of_many_methods().report.groups)}
    assert (lines["medusa"].promise, lines["medusa"].compared) == ("law", 0)
    assert lines["medusa"].note == "not compared: same law, other noise"
    assert lines["medusa-typical"].note.startswith("LOSSY")
    assert (lines["eagle3"].promise, lines["eagle3"].note) == ("text", "")
