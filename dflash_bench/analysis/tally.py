"""What drafting gave an arm in one cell, from the best source there is.

All answered requests tell their steps: they are summed. Else a backend's counters over whole visits, if no request
failed (of a failed one nobody knows what it cost the counters). Else, and said so by a lint, those requests that tell.
"""

from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import pandas as pd

from dflash_bench.analysis import acceptance, metrics
from dflash_bench.analysis.drafting import counted, histogram_of_requests, histogram_of_visits
from dflash_bench.analysis.frames import Sample

Source = Literal["requests", "counters", "some requests", "nothing"]


@dataclass(frozen=True)
class Tally:
    """Sums over a cell, None where not told; `committed` leaves out the prefills' own tokens."""

    source: Source
    steps: float | None
    committed: float | None
    drafted: float | None

    @property
    def accepted(self) -> float | None:
        """Drafts that are in the text."""
        if self.steps is None or self.committed is None:
            return None
        return self.committed - self.steps

    @property
    def length(self) -> float | None:
        """Tau: committed tokens per step."""
        return metrics.ratio(self.committed, self.steps)


def tally(sample: Sample) -> Tally:
    """Sum what drafting gave `sample`."""
    told, source = sample.drafting, source_of(sample)
    if source == "nothing":
        return Tally(source, None, None, None)
    if source == "counters":
        tokens = metrics.total(sample.answered["output_tokens"])
        committed = None if tokens is None else tokens - len(sample.answered)
        steps, drafted = (counted(sample.visits, field) for field in ("steps", "drafted"))
        return Tally(source, steps, committed, drafted)
    drafted = None if np.isnan(told.drafted).all() else float(np.nansum(told.drafted))
    return Tally(source, float(np.nansum(told.steps)), float(np.nansum(told.committed)), drafted)


def source_of(sample: Sample) -> Source:
    """Return where the sums of `sample` come from."""
    told = sample.drafting.told[~sample.requests["failed"].to_numpy()]
    if len(told) and told.all():
        return "requests"
    whole = len(sample.answered) == len(sample.requests)
    if whole and counted(sample.visits, "steps") is not None:
        return "counters"
    return "some requests" if told.any() else "nothing"


def length(sample: Sample, sums: Tally, seed: int) -> dict[str, float | None]:
    """Return tau of `sums` with its interval; by counters of whole visits it has none, and no mean of requests' own."""
    unknown = dict.fromkeys(acceptance.AcceptanceLength.__dataclass_fields__)
    if sums.source in ("counters", "nothing"):
        return unknown | {"value": sums.length}
    prompts, _ = pd.factorize(sample.requests["prompt"])
    told = sample.drafting
    found = acceptance.acceptance_length(told.committed, told.steps, prompts, seed)
    return unknown if found is None else asdict(found)


def positions(sample: Sample, tree: bool) -> acceptance.ByPosition:
    """Return the rates by position: from steps, else from histograms as a backend counts them."""
    answered = ~sample.requests["failed"].to_numpy()
    if sample.steps.known[answered].any() and (
        sample.steps.known[answered].all() or source_of(sample) == "some requests"
    ):
        return acceptance.by_position(sample.steps, tree)
    of_requests = histogram_of_requests(sample.answered)
    if of_requests:
        return acceptance.by_histogram(of_requests)
    whole = len(sample.answered) == len(sample.requests)
    return acceptance.by_histogram(histogram_of_visits(sample.visits) if whole else [])
