"""Groups hold the cells that differ in batch size only."""

from dflash_bench.plan import Cell
from dflash_bench.report.group import label
from tests.unit.report.results import make_result


def test_batch_sizes_share_a_group_and_nothing_else_does() -> None:
    report = make_result(context_lengths=(None, 1024)).report
    assert [group.label for group in report.groups] == [
        "sample-math",
        "sample-math, context 1,024",
        "sample-code",
        "sample-code, context 1,024",
    ]
    assert [group.batch_sizes for group in report.groups] == [(1, 4)] * 4


def test_a_row_finds_the_baseline_of_its_own_cell() -> None:
    group = make_result().report.groups[0]
    for row in group.compared:
        baseline = group.baseline_of(row)
        assert baseline is not None
        assert baseline.arm == "ar"
        assert baseline.cell == row.cell


def test_the_baseline_is_not_compared_with_itself() -> None:
    group = make_result().report.groups[0]
    assert "ar" not in {row.arm for row in group.compared}


def test_a_temperature_above_zero_is_named() -> None:
    cell = Cell(workload="w", batch_size=1, context_length=None, temperature=0.7)
    assert label(cell) == "w, temperature 0.7"
