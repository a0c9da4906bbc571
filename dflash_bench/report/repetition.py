"""A warning where texts repeat themselves: a loop can be the easiest text to draft, and flatter tau and speedup."""

from collections.abc import Iterator, Sequence

from dflash_bench.report.group import Group
from dflash_bench.report.row import Row
from dflash_bench.report.words import digits, ratio

NOTED = 0.1  # the share of prompts from which on it is said


def repetition_notes(groups: Sequence[Group]) -> tuple[str, ...]:
    """Return a sentence for each group of cells in which at least a tenth of the texts repeat themselves."""
    return tuple(note for group in groups for note in _note(group))


def _note(group: Group) -> Iterator[str]:
    """Speak of the group's fastest arm: it is the one that loops flatter."""
    rows = [row for row in group.compared if row.speedup is not None and row.repetition]
    if not rows:
        return
    row = max(rows, key=_speed)
    found = row.repetition or {}
    if found["repeating"] < NOTED * found["prompts"] or not found["prompts"]:
        return
    yield (
        f"{group.label}: {found['repeating']} of {found['prompts']} texts repeat a run of 20 tokens, and loops"
        f" can flatter what drafts them. {_others(row)}"
    )


def _others(row: Row) -> str:
    found = row.repetition or {}
    if found["speedup_others"] is None:
        return "No text is without."
    tau = row.tau.value if row.tau else None
    return (
        f"Over the others {row.arm} at batch {row.cell.batch_size} has tau"
        f" {digits(found['acceptance_length_others'])} and {ratio(found['speedup_others'])},"
        f" over all of them tau {digits(tau)} and {ratio(_speed(row))}."
    )


def _speed(row: Row) -> float:
    return row.speedup.value if row.speedup else 0.0
