"""The cells that share everything but their batch size: one panel of a figure, one block of a table."""

from collections.abc import Sequence
from dataclasses import dataclass

from dflash_bench.plan import Cell
from dflash_bench.report.row import Row


@dataclass(frozen=True)
class Group:
    """A workload at one point of all axes but the batch size, over batch sizes and arms."""

    label: str
    baseline: str
    rows: tuple[Row, ...]

    @property
    def compared(self) -> tuple[Row, ...]:
        """The rows that stand against the baseline."""
        return tuple(row for row in self.rows if row.arm != self.baseline)

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """The batch sizes of this group, smallest first."""
        return tuple(sorted({row.cell.batch_size for row in self.rows}))

    def baseline_of(self, row: Row) -> Row | None:
        """Return the baseline's row in the cell of `row`; None if it was not measured."""
        found = (other for other in self.rows if other.arm == self.baseline)
        return next((other for other in found if other.cell == row.cell), None)


def group_rows(rows: Sequence[Row], baseline: str) -> tuple[Group, ...]:
    """Group `rows` by all axes but the batch size, in the order in which they first stand."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(label(row.cell), []).append(row)
    return tuple(Group(name, baseline, tuple(members)) for name, members in found.items())


def label(cell: Cell) -> str:
    """Name a cell without its batch size, such as `gsm8k, context 1,024, temperature 1, int8 weights`."""
    context = f", context {cell.context_length:,}" if cell.context_length else ""
    temperature = f", temperature {cell.temperature:g}" if cell.temperature else ""
    tokens = f", {cell.max_new_tokens:,} new tokens" if cell.max_new_tokens else ""
    rate = f", {cell.request_rate:g} requests/s" if cell.request_rate else ""
    weights = f", {cell.target_quantization} weights" if cell.target_quantization else ""
    return f"{cell.workload}{context}{temperature}{tokens}{rate}{weights}"
