"""A sweep's closing lines are plain text: a line per arm and cell, the answer, and where the page lies."""

from pathlib import Path

from dflash_bench.errors import printable
from dflash_bench.report.console import closing_lines
from tests.unit.report.results import make_result, of_many_methods


def test_each_arm_of_each_cell_has_a_line() -> None:
    lines = closing_lines(make_result().report).splitlines()
    assert sum(".t0  dflash-b" in line for line in lines) == 12
    assert not any(".t0  ar " in line for line in lines)


def test_a_line_holds_speedup_interval_tau_break_even_and_verdict() -> None:
    result = make_result(workloads=("gsm8k",), batches=(1,), blocks=(4,))
    result.cells[1] |= {
        "speedup": {"value": 2.311, "ci_low": 2.2, "ci_high": 2.423},
        "acceptance_length": {"value": 3.1, "ci_low": 3.0, "ci_high": 3.2},
        "break_even_tau": {"value": 1.34},
        "verdict": "HELPS",
    }
    line = next(line for line in closing_lines(result.report).splitlines() if "gsm8k" in line)
    assert line.split() == [
        *("gsm8k.b1.t0", "dflash-b4", "2.31x", "(2.20-2.42)", "3.10", "1.34", "HELPS")
    ]


def test_the_answer_and_the_page_come_last() -> None:
    text = closing_lines(make_result().report, Path("results/quickstart/report.html"))
    assert text.endswith("Report: results/quickstart/report.html")
    assert "DFlash helps here" in text
    assert "says nothing about an 8B model" in text


def test_simulated_numbers_are_announced_first() -> None:
    result = make_result()
    result.manifest["simulated"] = True
    assert closing_lines(result.report).startswith("SIMULATED")


def test_the_text_is_ascii_even_where_nothing_was_measured() -> None:
    result = make_result(target="Qwen/Qwen3-8B")
    nothing = dict.fromkeys(("speedup", "acceptance_length", "break_even_tau", "verdict"))
    result.cells[1] |= nothing
    text = closing_lines(result.report)
    assert text.isascii()
    assert "dflash-b4   -  " in text


def test_a_name_cannot_steer_the_terminal() -> None:
    text = closing_lines(make_result(workloads=("evil\x1b[31m\nname",)).report)
    assert "\x1b" not in text
    assert "evil?[31m name" in text


def test_printable_keeps_lines_and_letters() -> None:
    assert printable("a\nß\x07") == "a\nß?"


def test_a_sweep_of_the_baseline_alone_still_ends_in_words() -> None:
    result = make_result()
    result.cells = [entry for entry in result.cells if entry["arm"] == "ar"]
    assert "4 cells" in closing_lines(result.report)


def test_a_lossy_arm_is_called_so_in_its_line() -> None:
    text = closing_lines(of_many_methods().report)
    measured, *lines = text.splitlines()
    assert "medusa-typical (LOSSY)," in measured
    assert sum("medusa-typical (LOSSY)" in line for line in lines) == 1
    assert sum(" medusa  " in line for line in text.splitlines()) == 1
