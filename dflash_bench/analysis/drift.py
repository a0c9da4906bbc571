"""Did the machine change while we looked? The baseline's seconds per token late over early, wall and CPU.

Two looks: the controls (the baseline first and last of the whole run, outside every estimate), and, within a cell, the
baseline's last round over its first. Wall that drifts while CPU does not is somebody else's load.
"""

from typing import Any

from dflash_bench.analysis.frames import Sample, Tables
from dflash_bench.analysis.metrics import ratio, window


def control_drift(tables: Tables) -> dict[str, Any]:
    """Return the drift between the two controls, None where one of them is missing."""
    first, last = (
        next(iter(tables.samples(role).values()), None)
        for role in ("control_first", "control_last")
    )
    return _drift(first, last)


def cell_drift(baseline: Sample | None) -> dict[str, Any]:
    """Return the drift between the baseline's first and last measured round of a cell."""
    if baseline is None or baseline.rounds < 2:
        return _drift(None, None)
    rounds = baseline.visits["round"]
    return _drift(_only(baseline, rounds.min()), _only(baseline, rounds.max()))


def _only(sample: Sample, number: int) -> Sample:
    """Return one round of `sample`; its steps are not needed here and stay whole."""
    visits, requests = (
        table[table["round"] == number] for table in (sample.visits, sample.requests)
    )
    return Sample(visits, requests, sample.steps)


def _drift(first: Sample | None, last: Sample | None) -> dict[str, Any]:
    early, late = (window(side) if side is not None else {} for side in (first, last))
    drift: dict[str, Any] = {}
    for clock in ("wall", "cpu"):
        before, after = (side.get(f"{clock}_s_per_token") for side in (early, late))
        drift[f"first_{clock}_s_per_token"] = before
        drift[f"last_{clock}_s_per_token"] = after
        drift[f"{clock}_ratio"] = ratio(after, before)
    return drift
