"""How many prompts or rounds would settle an unproven speedup.

The interval must clear the nearest border of the region in which the estimate lies. With the estimate where it is
that takes a standard error of distance / (quantile + 0.84), the 0.84 for a chance of four in five that the repetition
shows it, as the next estimate falls elsewhere. Prompts shrink the prompts' variance only, rounds only the rounds'.

Source: the usual power formula, e.g. J. Cohen, "Statistical Power Analysis for the Behavioral Sciences", 1988.
"""

from dataclasses import dataclass
from math import ceil, inf, log

from dflash_bench.analysis.stats import LogRatio
from dflash_bench.analysis.verdict import ALPHA

POWER_QUANTILE = 0.8416  # of the standard normal at 0.8
PRACTICAL = 100  # times what was measured; more is not worth proposing


@dataclass(frozen=True)
class Needed:
    """Prompts alone, or rounds alone, or `factor` times both; None where that way does not lead there."""

    prompts: int | None
    rounds: int | None
    factor: int | None


def needed(ratio: LogRatio, delta: float, comparisons: int = 1) -> Needed:
    """Return what would settle `ratio`, tested among `comparisons` (Bonferroni's level, Holm's first)."""
    parts = ratio.parts
    if parts is None:
        return Needed(None, None, None)
    border = log(1 + delta)
    distance = abs(abs(ratio.value) - border)
    goal = (distance / (ratio.quantile(1 - ALPHA / comparisons) + POWER_QUANTILE)) ** 2
    var_rounds = parts[0][0]
    var_prompts = parts[1][0] if len(parts) > 1 else 0.0
    return Needed(
        prompts=_enough(var_prompts, var_rounds, goal, ratio.prompts),
        rounds=_enough(var_rounds, var_prompts, goal, ratio.rounds),
        factor=_practical((var_prompts + var_rounds) / goal if goal else inf, 1),
    )


def _enough(shrinks: float, stays: float, goal: float, now: int) -> int | None:
    """Return the count at which `shrinks` * now / count + `stays` meets `goal`."""
    if stays >= goal or not shrinks:
        return None
    return _practical(shrinks / (goal - stays), now)


def _practical(times: float, now: int) -> int | None:
    return ceil(times * now) if times <= PRACTICAL else None
