"""One arm against the baseline in one cell: the pairs, and the ratios that are estimated from them.

Three ratios: end to end (what verdicts use), decode only (what papers print), and the cost of a step, whose inverse is
the break-even acceptance length. With AR as the baseline that is (arm's decode wall / active row-steps) / (AR's): AR
commits one token a step, so "per token" says the same of it and holds for any baseline.
"""

from dataclasses import dataclass
from math import exp

from dflash_bench.analysis.frames import Sample
from dflash_bench.analysis.pairs import Pairs, pair
from dflash_bench.analysis.stats import LogRatio, Scope, log_ratio


@dataclass(frozen=True)
class Comparison:
    """An arm against the baseline.

    `step_cost` is the log of the baseline's decode seconds per token over the arm's per active row-step.
    """

    pairs: Pairs
    speedup: LogRatio | None
    decode_speedup: LogRatio | None
    step_cost: LogRatio | None

    @classmethod
    def of(cls, baseline: Sample, arm: Sample, scope: Scope) -> "Comparison":
        """Pair `arm` with `baseline` and estimate the ratios in `scope`."""
        pairs = pair(baseline, arm)
        left, right = pairs.baseline, pairs.arm
        return cls(
            pairs=pairs,
            speedup=log_ratio(left.end_to_end, right.end_to_end, scope),
            decode_speedup=log_ratio(left.decode, right.decode, scope),
            step_cost=log_ratio(left.decode, right.steps, scope),
        )

    @property
    def break_even_tau(self) -> float | None:
        """The tau at which decoding is as fast as the baseline's: what a step costs, in tokens of the baseline."""
        return None if self.step_cost is None else exp(-self.step_cost.value)

    @property
    def tau(self) -> float | None:
        """Tokens per step over the pairs in the window; decode speedup = tau / break-even tau."""
        steps = float(self.pairs.arm.row_steps.sum())
        return float(self.pairs.arm.decode_tokens.sum()) / steps if steps else None
