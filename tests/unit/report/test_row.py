"""An entry of cells.json becomes typed data, with None wherever it has null."""

from typing import Any

from dflash_bench.report.row import Estimate, read_estimate, read_phases, read_row
from tests.unit.report.results import make_result


def entry() -> dict[str, Any]:
    """An arm's entry: the second one, since a cell's baseline comes first."""
    return make_result().cells[1]


def test_an_arm_keeps_its_numbers() -> None:
    row = read_row(entry())
    assert row.cell.id == "sample-math.b1.t0"
    assert (row.arm, row.block_size, row.prompts, row.rounds) == ("dflash-b4", 4, 32, 4)
    assert row.speedup is not None
    assert row.speedup.value == entry()["speedup"]["value"]
    assert len(row.pairs) == 4


def test_a_baseline_has_no_ratios() -> None:
    row = read_row(make_result().cells[0])
    assert (row.speedup, row.decode_speedup, row.break_even_tau, row.pairs) == (
        None,
        None,
        None,
        (),
    )
    assert row.wins_per_step is None


def test_an_estimate_of_nulls_is_none() -> None:
    unknown = {"value": None, "ci_low": None, "ci_high": None}
    row = read_row(
        entry()
        | {"speedup": unknown, "acceptance_length": unknown, "break_even_tau": {"value": None}}
        | {"ttft_s": None, "tpot_s": {"p50": None}, "step_time": None, "pairs": [None, 1.5]}
    )
    assert (row.speedup, row.tau, row.break_even_tau) == (None, None, None)
    assert (row.ttft_p50_s, row.tpot_p50_s, row.phases) == (None, None, None)
    assert row.pairs == (1.5,)


def test_an_estimate_may_lack_its_interval() -> None:
    assert read_estimate({"value": 2.0, "ci_low": None, "ci_high": None}) == Estimate(2.0)


def test_the_targets_prefill_is_no_phase_of_a_step() -> None:
    assert read_phases({"per_row_step_s": {"prefill": 1.0, "verify": 0.5, "commit": None}}) == {
        "verify": 0.5
    }


def test_a_step_wins_only_above_break_even() -> None:
    tau = {"value": 3.0, "ci_low": None, "ci_high": None}
    rows = [
        read_row(entry() | {"acceptance_length": tau, "break_even_tau": {"value": value}})
        for value in (2.9, 3.0, 3.1)
    ]
    assert [row.wins_per_step for row in rows] == [True, False, False]
