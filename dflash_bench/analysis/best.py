"""The best arms of a cell, as a set: all that cannot be told from the fastest.

Arms share prompts and rounds, so they are compared with the fastest one directly, pair by pair: a prompt that is easy
for all of them, or a slow round, then says nothing. An arm leaves the set where it is slower beyond chance, at 5 %
divided by the number of such comparisons (Bonferroni). Reporting the one with the largest estimate instead would
report its luck as well.
"""

from collections.abc import Mapping

from dflash_bench.analysis.comparison import Comparison
from dflash_bench.analysis.frames import Sample
from dflash_bench.analysis.stats import Scope
from dflash_bench.analysis.verdict import ALPHA


def best_arms(
    samples: Mapping[str, Sample], speedups: Mapping[str, float], scope: Scope
) -> list[str]:
    """Return the arms of one cell that may be the fastest, in the order of `speedups` (over the baseline)."""
    if not speedups:
        return []
    fastest = max(speedups, key=lambda arm: speedups[arm])
    alpha = ALPHA / max(1, len(speedups) - 1)
    return [
        arm
        for arm in speedups
        if arm == fastest or not _slower(samples[fastest], samples[arm], scope, 1 - alpha)
    ]


def _slower(fastest: Sample, arm: Sample, scope: Scope, level: float) -> bool:
    """Tell whether `arm` is slower than `fastest` beyond chance; without an interval nothing is beyond chance."""
    found = Comparison.of(fastest, arm, scope).speedup
    bounds = found.interval(level) if found is not None else None
    return bounds is not None and bounds[1] < 1
