"""What each figure shows, how it says it in words, and what it admits to leave out."""

import pytest

from dflash_bench.report.figures.acceptance import acceptance_figure
from dflash_bench.report.figures.break_even import break_even_figure
from dflash_bench.report.figures.figure import MAX_BARS, heights, left_out, shown
from dflash_bench.report.figures.speedup import speedup_figure
from dflash_bench.report.figures.step_time import step_time_figure
from dflash_bench.report.model import Report
from tests.unit.report.results import make_result, of_many_methods


@pytest.fixture(scope="module")
def small() -> Report:
    return make_result(workloads=("gsm8k",)).report


def test_speedup_has_a_series_per_batch_and_every_arm_in_words(small: Report) -> None:
    figure = speedup_figure(small)
    assert [key.label for key in figure.legend] == ["batch 1", "batch 4"]
    assert len({key.glyph for key in figure.legend}) == 2
    summary = figure.panels[0].summary
    assert summary.count("x (") == 6
    assert summary.startswith("Speedup on gsm8k. batch 1: ")


def test_a_batch_that_no_arm_can_do_is_in_no_legend() -> None:
    result = make_result(workloads=("gsm8k",))
    result.cells = [
        entry for entry in result.cells if entry["arm"] == "ar" or entry["cell"]["batch_size"] == 1
    ]
    assert [key.label for key in speedup_figure(result.report).legend] == ["batch 1"]


def test_every_round_is_a_dot(small: Report) -> None:
    svg = speedup_figure(small).panels[0].svg
    # 6 estimates of 4 rounds each, and the estimates' own markers.
    assert svg.count("<use ") - svg.count('y="0"') >= 6 * 4 + 6


def test_acceptance_is_shown_marginal_and_conditional(small: Report) -> None:
    figure = acceptance_figure(small)
    assert [panel.title for panel in figure.panels] == [
        "gsm8k: all of the first i accepted",
        "gsm8k: draft i accepted, given the ones before",
    ]
    assert "block 16: 90 % at position 1, 4 % at 15" in figure.panels[0].summary
    assert "block 16: 90 % at position 1, 80 % at 15" in figure.panels[1].summary


def test_break_even_tells_gain_from_loss_by_shape() -> None:
    figure = break_even_figure(make_result(workloads=("sample-math",)).report)
    assert len({key.glyph for key in figure.legend}) == 3
    svg = figure.panels[0].svg
    assert "var(--gain)" in svg
    assert "var(--loss)" in svg
    assert "stroke-dasharray" in svg


def test_step_time_puts_the_baseline_first_in_each_batch(small: Report) -> None:
    summary = step_time_figure(small).panels[0].summary
    order = [
        summary.index(words) for words in ("ar at batch 1", "block 4 at batch 1", "ar at batch 4")
    ]
    assert order == sorted(order)
    assert "verify (the target's pass) 1.95" in summary


def test_too_many_are_cut_and_the_cut_is_said() -> None:
    notes: list[str] = []
    assert shown([1, 2, 3], 2, "arms", notes) == [1, 2]
    assert shown([1, 2], 2, "groups", notes) == [1, 2]
    assert left_out(notes) == "Shown: the first 2 of 3 arms; the table below has all of them."
    assert left_out([]) == ""


def test_many_arms_stay_readable() -> None:
    report = make_result(workloads=("gsm8k",), batches=(1,), blocks=tuple(range(2, 26))).report
    for figure in (speedup_figure(report), break_even_figure(report), step_time_figure(report)):
        assert f"the first {MAX_BARS} of " in figure.left_out


def test_batches_stand_apart() -> None:
    rows = make_result(workloads=("gsm8k",), blocks=(4,)).report.groups[0].rows
    assert heights(rows) == pytest.approx([0.0, 1.0, 2.4, 3.4])


def test_eight_arms_have_eight_looks() -> None:
    legend = acceptance_figure(of_many_methods().report).legend
    assert len({key.glyph for key in legend}) == len({key.variable for key in legend}) == 8
    assert [key.label for key in legend].count("medusa-typical (LOSSY)") == 1
