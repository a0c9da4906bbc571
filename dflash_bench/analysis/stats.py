"""The interval of a speedup: a log ratio of totals, with two sources of variance. Numbers in, numbers out.

A user asks about a workload and owns a sample of its prompts, measured in a few rounds. Other prompts would have
given another ratio, and so would another round; both spreads belong into the interval (docs/method.md derives the sum
and says what is counted twice).

Sources: delete-one jackknife, B. Efron and C. Stein, "The jackknife estimate of variance", Annals of Statistics 9,
1981; degrees of freedom of a sum of variances, F. E. Satterthwaite, Biometrics Bulletin 2, 1946.
"""

from dataclasses import dataclass, replace
from math import exp, inf, isfinite, log, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

Floats = NDArray[np.float64]
Scope = Literal["workload", "prompts"]


@dataclass(frozen=True)
class Rate:
    """Seconds and the units (tokens or steps) that they bought, both [P, R]: prompts by rounds. Zero is nothing."""

    seconds: Floats
    units: Floats


@dataclass(frozen=True)
class LogRatio:
    """log(baseline's seconds per unit / arm's), with its variance by source, None where a source has under two members.

    `scope` "workload" counts both sources, "prompts" (these very prompts, again) the rounds only.
    """

    value: float
    prompts: int
    rounds: int
    var_prompts: float | None
    var_rounds: float | None
    scope: Scope = "workload"

    @property
    def ratio(self) -> float:
        """The ratio itself."""
        return exp(self.value)

    @property
    def parts(self) -> list[tuple[float, int]] | None:
        """Return (variance, degrees of freedom) of each source in scope; None if one of them cannot be told."""
        if self.var_rounds is None or (self.scope == "workload" and self.var_prompts is None):
            return None
        parts = [(self.var_rounds, self.rounds - 1)]
        if self.scope == "workload" and self.var_prompts is not None:
            parts.append((self.var_prompts, self.prompts - 1))
        return parts

    @property
    def se(self) -> float | None:
        """Standard error of the log ratio."""
        return None if self.parts is None else sqrt(sum(variance for variance, _ in self.parts))

    @property
    def df(self) -> float:
        """Satterthwaite's degrees of freedom; infinite if nothing varies."""
        parts = self.parts or []
        below = sum(variance**2 / freedom for variance, freedom in parts)
        return sum(variance for variance, _ in parts) ** 2 / below if below else inf

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """Return the two-sided interval of the ratio, None if its variance cannot be told."""
        if self.se is None:
            return None
        half = self.quantile(level) * self.se
        return exp(self.value - half), exp(self.value + half)

    def quantile(self, level: float = 0.95) -> float:
        """Return how many standard errors the two-sided interval reaches to each side."""
        return float(student.ppf((1 + level) / 2, self.df))

    def p_above(self, threshold: float) -> float:
        """Return the one-sided p-value of "the ratio is at most `threshold`": small where it lies above."""
        distance = self.value - log(threshold)
        if self.se is None:
            return 1.0
        if self.se == 0:
            return 0.0 if distance > 0 else 1.0
        return float(student.sf(distance / self.se, self.df))

    def p_below(self, threshold: float) -> float:
        """Return the one-sided p-value of "the ratio is at least `threshold`": small where it lies below."""
        return replace(self, value=-self.value).p_above(1 / threshold)


def log_ratio(baseline: Rate, arm: Rate, scope: Scope = "workload") -> LogRatio | None:
    """Return the log ratio of totals over prompts and rounds; None where either side has no seconds or no units."""
    prompts, rounds = baseline.seconds.shape
    value = float(_log_ratio(*(part.sum() for part in _four(baseline, arm))))
    if not isfinite(value):
        return None
    return LogRatio(
        value, prompts, rounds, _var_prompts(baseline, arm), _var_rounds(baseline, arm), scope
    )


def per_round(baseline: Rate, arm: Rate) -> Floats:
    """Return the log ratio of each round, [R]; NaN where a round has no data."""
    return _log_ratio(*(part.sum(axis=0) for part in _four(baseline, arm)))


def per_prompt(baseline: Rate, arm: Rate) -> Floats:
    """Return the log ratio of each prompt, [P]; NaN where a prompt has no tokens in the window."""
    return _log_ratio(*(part.sum(axis=1) for part in _four(baseline, arm)))


def geometric_mean(baseline: Rate, arm: Rate) -> float | None:
    """Return the geometric mean over prompts of the paired ratio."""
    ratios = per_prompt(baseline, arm)
    usable = ratios[np.isfinite(ratios)]
    return float(np.exp(usable.mean())) if len(usable) else None


def _var_prompts(baseline: Rate, arm: Rate) -> float | None:
    """Delete-one-prompt jackknife: (P - 1) / P times the squared spread of the ratios without one prompt."""
    sums = [part.sum(axis=1) for part in _four(baseline, arm)]
    count = len(sums[0])
    left_out = _log_ratio(*(part.sum() - part for part in sums))
    if count < 2 or not np.isfinite(left_out).all():
        return None
    return float((count - 1) / count * ((left_out - left_out.mean()) ** 2).sum())


def _var_rounds(baseline: Rate, arm: Rate) -> float | None:
    """Variance of the mean of the rounds' own log ratios."""
    rounds = per_round(baseline, arm)
    if len(rounds) < 2 or not np.isfinite(rounds).all():
        return None
    return float(rounds.var(ddof=1) / len(rounds))


def _four(baseline: Rate, arm: Rate) -> tuple[Floats, Floats, Floats, Floats]:
    return baseline.seconds, baseline.units, arm.seconds, arm.units


def _log_ratio(seconds: Floats, units: Floats, arm_seconds: Floats, arm_units: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(seconds) - np.log(units) - np.log(arm_seconds) + np.log(arm_units)
    return np.where(np.isfinite(found), found, np.nan)
