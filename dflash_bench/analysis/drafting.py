"""What drafting gave each request, wherever it was told: step by step, or only summed.

An engine tells each step; a server often tells a request's totals, or nothing but its own counters over a whole visit.
All say the same thing in the end: verify steps, drafts, and what was committed. After the cut `accepted = committed -
steps`, whatever a backend counts past the end of a text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dflash_bench.analysis.steps import Steps
from dflash_bench.records.histogram import histogram_of

Floats = NDArray[np.float64]
SUMMED = ("summed_steps", "summed_drafted", "summed_kept", "histogram")


@dataclass(frozen=True)
class Drafting:
    """Sums per request, each [N], NaN where not told; `committed` leaves the prefill's token out."""

    steps: Floats
    committed: Floats
    drafted: Floats

    @property
    def accepted(self) -> Floats:
        """Drafts that are in the text, [N]."""
        return self.committed - self.steps

    @property
    def told(self) -> NDArray[np.bool_]:
        """Which requests tell their steps, [N]."""
        return ~np.isnan(self.steps)


def summed_row(line: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the columns `SUMMED` of a request's record."""
    told = line.get("acceptance") or {}
    histogram = told.get("histogram")
    return (
        told.get("steps"),
        told.get("drafted"),
        _kept(told),
        None if histogram is None else tuple(int(count) for count in histogram),
    )


def _kept(told: Mapping[str, Any]) -> int | None:
    """Return the drafts that are in the text: those accepted, less what was dropped past its end."""
    accepted, overshoot = told.get("accepted"), told.get("overshoot")
    return None if accepted is None or overshoot is None else accepted - overshoot


def drafting(requests: pd.DataFrame, steps: Steps) -> Drafting:
    """Return what drafting gave `requests`, row by row beside `steps`: steps where they are told, else the sums."""
    known = steps.known
    summed = requests["summed_steps"].to_numpy(np.float64)
    after_prefill = requests["output_tokens"].to_numpy(np.float64) - 1
    return Drafting(
        steps=np.where(known, steps.lengths, summed),
        committed=np.where(
            known,
            steps.per_request(steps.committed),
            np.where(np.isnan(summed), np.nan, after_prefill),
        ),
        drafted=np.where(
            known,
            steps.per_request(steps.drafted),
            requests["summed_drafted"].to_numpy(np.float64),
        ),
    )


def counted(visits: pd.DataFrame, field: str) -> float | None:
    """Return the sum of `field` over the counters of `visits`; None unless every visit tells it."""
    values = [(told or {}).get(field) for told in visits["counters"]]
    told = [float(value) for value in values if value is not None]
    return sum(told) if told and len(told) == len(values) else None


def histogram_of_requests(requests: pd.DataFrame) -> list[int]:
    """Return the steps by accepted drafts, summed over requests; [] unless each tells its own.

    It is as a backend counts, past the end of a text included, so that no step is cut.
    """
    told = [found for found in requests["histogram"] if found is not None]
    return _summed(told) if told and len(told) == len(requests) else []


def histogram_of_visits(visits: pd.DataFrame) -> list[int]:
    """Return the same from the counters of `visits`; [] unless each tells it."""
    counters = [found or {} for found in visits["counters"]]
    if not counters:
        return []
    found = [_from_counters(entry) for entry in counters]
    return _summed(found) if all(found) else []


def _from_counters(told: Mapping[str, Any]) -> Sequence[int]:
    """Return the histogram of one visit: told as such, or from the steps that accepted at least 1, 2, ... drafts."""
    if told.get("histogram"):
        return tuple(told["histogram"])
    steps, reached = told.get("steps"), told.get("accepted_per_position")
    if steps is None or reached is None:
        return ()
    return histogram_of(reached, steps)


def _summed(histograms: Sequence[Sequence[int]]) -> list[int]:
    longest = max(len(one) for one in histograms)
    total = np.zeros(longest, dtype=np.int64)
    for one in histograms:
        total[: len(one)] += np.asarray(one, dtype=np.int64)
    return [int(count) for count in total]
