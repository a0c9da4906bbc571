"""The last lines that a sweep prints: what was measured, a line per cell and arm, the answer, and where the page lies.

Plain text of fixed columns, for terminals, logs and pipes alike.
"""

from collections.abc import Sequence
from pathlib import Path

from dflash_bench.errors import printable
from dflash_bench.report.model import Report
from dflash_bench.report.row import Doubt, Row
from dflash_bench.report.words import NOT_MEASURED, digits, interval

HEADER = ("cell", "arm", "speedup (95 %)", "tau", "break-even", "verdict")


def closing_lines(report: Report, page: Path | None = None) -> str:
    """Return the closing lines of a sweep; `page` is where the HTML report was written."""
    rows = [row for row in report.rows if not report.is_baseline(row)]
    parts = [measured(report), table([HEADER, *(_cells(row) for row in rows)]), report.sentence]
    parts += [
        f"INVALID: {row.arm} in {row.cell.id}: {'; '.join(row.broken_identities)}."
        for row in report.rows
        if row.broken_identities
    ]
    parts += [f"Note: {note}" for note in report.repetition_notes]
    parts += doubts(report.rows)
    if report.small_models:
        parts[-1] += "\nSmall models: the shape is real, its size says nothing about an 8B model."
    if report.simulated:
        parts.insert(
            0, "SIMULATED: these numbers come from a model of a server, not from a machine."
        )
    if page is not None:
        parts.append(f"Report: {page}")
    return "\n\n".join(printable(part) for part in parts)


def doubts(rows: Sequence[Row]) -> list[str]:
    """Return a line for each doubt about a figure, and in how many cells an arm has it; notes stay in the report."""
    found: dict[tuple[str, Doubt], list[str]] = {}
    for row in rows:
        for doubt in row.lints:
            if doubt.severity != "note":
                found.setdefault((row.arm, doubt), []).append(row.cell.id)
    return [
        f"{'INVALID' if doubt.severity == 'invalid' else 'Warning'} {doubt.code}: {arm} in"
        f" {cells[0] if len(cells) == 1 else _count(len(cells), 'cell')}: {doubt.message} {doubt.remedy}"
        for (arm, doubt), cells in found.items()
    ]


def measured(report: Report) -> str:
    """Say what was measured, in a line."""
    cells = {row.cell.id for row in report.rows}
    arms = ", ".join(report.named_arms)
    return (
        f"{report.plan.name}: {arms} against {report.plan.baseline}, {report.spec.target} on runner"
        f" {report.plan.runner}; {_count(len(cells), 'cell')}, {_count(report.plan.rounds, 'round')}."
    )


def table(lines: Sequence[Sequence[str]]) -> str:
    """Align `lines` in columns; numbers stand to the right of theirs."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    right = {3, 4}
    return "\n".join(
        "  ".join(
            text.rjust(width) if column in right else text.ljust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    texts = (
        row.cell.id,
        f"{row.arm} (LOSSY)" if row.lossy else row.arm,
        interval(row.speedup, "x"),
        digits(row.tau.value if row.tau else None),
        digits(row.break_even_tau),
        row.verdict or NOT_MEASURED,
    )
    # A plain hyphen: a terminal that knows ASCII only must not stop at it.
    return tuple("-" if text == NOT_MEASURED else " ".join(text.split()) for text in texts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
