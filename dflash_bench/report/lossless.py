"""Equality of outputs as a report shows it: one line per arm and group, summed over batch sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dflash_bench.report.group import Group
from dflash_bench.report.row import Row


@dataclass(frozen=True)
class Equality:
    """How many of an arm's outputs were the baseline's, token for token. None is "not judged".

    `promise` is what the arm's rule keeps: the text, only its law (then nothing is compared), or nothing.
    """

    group: str
    arm: str
    promise: str
    compared: int
    identical: int
    near_tie: int | None
    wrong: int | None
    first_divergence: str

    @property
    def note(self) -> str:
        """Say why an equality of texts is not asked of this arm; empty where it is."""
        if self.promise == "law":
            return "not compared: same law, other noise"
        return "LOSSY: its rule changes the text" if self.promise == "nothing" else ""


def equalities(groups: Sequence[Group]) -> list[Equality]:
    """Return one line per group and arm that was compared with the baseline."""
    return [
        _equality(group.label, arm, [row for row in group.compared if row.arm == arm])
        for group in groups
        for arm in dict.fromkeys(row.arm for row in group.compared if row.lossless)
    ]


def control(groups: Sequence[Group]) -> tuple[int, int] | None:
    """Return (identical, compared) of the baseline against itself over rounds; None if never compared."""
    found = [row.lossless for group in groups for row in group.rows if row.lossless]
    # Every arm of a cell carries that cell's control; the baseline's own entries count each once.
    own = [
        row.lossless
        for group in groups
        for row in group.rows
        if row.lossless and row.arm == group.baseline
    ]
    entries = own or found
    compared = _total(entries, "control_compared")
    return (_total(entries, "control_identical") or 0, compared) if compared else None


def _equality(group: str, arm: str, rows: Sequence[Row]) -> Equality:
    entries = [row.lossless for row in rows if row.lossless]
    return Equality(
        group=group,
        arm=arm,
        promise=next((entry["promise"] for entry in entries if "promise" in entry), "text"),
        compared=_total(entries, "compared") or 0,
        identical=_total(entries, "identical") or 0,
        near_tie=_total(entries, "near_tie"),
        wrong=_total(entries, "wrong"),
        first_divergence=_first_divergence(entries),
    )


def _total(entries: Sequence[Mapping[str, Any]], key: str) -> int | None:
    """Sum `key`; None as soon as one of `entries` does not know it."""
    counts = [entry.get(key) for entry in entries]
    known = [int(count) for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _first_divergence(entries: Sequence[Mapping[str, Any]]) -> str:
    for entry in entries:
        for found in entry.get("first_divergences") or ():
            return f"{found.get('request')} at token {found.get('position')}"
    return ""
