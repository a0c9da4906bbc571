"""One arm against the baseline in one cell: the pairs, and the ratios that are estimated from them.

Three ratios: end to end (what verdicts use), decode only (what papers print), and the cost of a step, whose inverse is
the break-even acceptance length. With AR as the baseline that is (arm's decode wall / active row-steps) / (AR's): AR
commits one token a step, so "per token" says the same of it and holds for any baseline.
"""

from dataclasses import dataclass
from math import exp

import numpy as np

from dflash_bench.analysis.frames import Sample
from dflash_bench.analysis.pairs import Pairs, pair
from dflash_bench.analysis.stats import LogRatio, Rate, Scope, log_ratio


@dataclass(frozen=True)
class Comparison:
    """An arm against the baseline.

    `step_cost` is the log of the baseline's decode seconds per token over the arm's per active row-step. It is
    `implied` where a backend shows no times of steps: it then follows from requests' waiting and the number of steps.
    """

    pairs: Pairs
    speedup: LogRatio | None
    decode_speedup: LogRatio | None
    step_cost: LogRatio | None
    implied: bool = False

    @classmethod
    def of(cls, baseline: Sample, arm: Sample, scope: Scope) -> "Comparison":
        """Pair `arm` with `baseline` and estimate the ratios in `scope`."""
        pairs = pair(baseline, arm)
        left, right = pairs.baseline, pairs.arm
        return cls(
            pairs=pairs,
            speedup=_estimate(left.end_to_end, right.end_to_end, scope),
            decode_speedup=_estimate(left.decode, right.decode, scope),
            step_cost=_estimate(left.decode, right.steps, scope),
            implied=bool(arm.answered["window_decode_s"].notna().any())
            and bool(arm.answered["window_verify_s"].isna().all()),
        )

    @property
    def break_even_tau(self) -> float | None:
        """The tau at which decoding is as fast as the baseline's: what a step costs, in tokens of the baseline."""
        return None if self.step_cost is None else exp(-self.step_cost.value)

    @property
    def tau(self) -> float | None:
        """Tokens per step over the pairs in the window; decode speedup = tau / break-even tau."""
        steps = float(self.pairs.arm.row_steps.sum())
        told = not np.isnan(steps) and steps > 0
        return float(self.pairs.arm.decode_tokens.sum()) / steps if told else None


def _estimate(baseline: Rate, arm: Rate, scope: Scope) -> LogRatio | None:
    """Return the log ratio of two rates; None where a backend does not tell what one of them is made of."""
    told = (baseline.seconds, baseline.units, arm.seconds, arm.units)
    if any(np.isnan(values).any() for values in told):
        return None
    return log_ratio(baseline, arm, scope)
