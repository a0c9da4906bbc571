"""How long the visits that are left will take, from those that were made."""

from collections import defaultdict
from statistics import fmean

from dflash_bench.plan import Visit


class TimeLeft:
    """Seconds per request seen so far, per (cell, arm), per arm, and over all: the nearest that is known is used."""

    def __init__(self, requests: dict[str, int]) -> None:
        self._requests = requests
        self._seen: dict[tuple[str, ...], list[float]] = defaultdict(list)

    def saw(self, visit: Visit, wall_s: float) -> None:
        """Learn from a visit that took `wall_s` seconds."""
        rate = wall_s / max(1, self._requests[visit.id])
        for key in _nearest_first(visit):
            self._seen[key].append(rate)

    def of(self, visits: list[Visit]) -> float | None:
        """Return the seconds that `visits` will take; None before anything was seen."""
        if not self._seen:
            return None
        return sum(self._requests[visit.id] * self._rate(visit) for visit in visits)

    def _rate(self, visit: Visit) -> float:
        key = next(key for key in _nearest_first(visit) if key in self._seen)
        return fmean(self._seen[key])


def _nearest_first(visit: Visit) -> list[tuple[str, ...]]:
    return [(visit.cell, visit.arm), (visit.arm,), ()]
