"""The statistical twin: data with a known truth, drawn many times, against the interval that we print.

Prompts differ in how much a method helps them (log-normal) and in length (correlated with the help); rounds differ in
their ratio; single requests are noisy. The truth is the workload's ratio of expectations, of which a log-normal has
closed forms: no sample is asked what it should have been.

`python -m tests.property.twin [DRAWS]` prints the coverage table of docs/method.md.
"""

import sys
from dataclasses import dataclass
from math import exp, log, nan

import numpy as np

from dflash_bench.analysis.stats import Rate, Scope, log_ratio

LENGTH_SPREAD, CORRELATION = 0.5, -0.3
MEDIAN_SPEEDUP = 2.0


@dataclass(frozen=True)
class Twin:
    """A workload and an experiment on it; spreads and noises are standard deviations of logarithms."""

    prompts: int = 48
    rounds: int = 4
    spread: float = 0.3
    round_sd: float = 0.03
    request_sd: float = 0.0

    @property
    def truth(self) -> float:
        """E[N] / E[N / speedup], for log N and log speedup jointly normal: exp(mu - (var - 2 cov) / 2)."""
        covariance = CORRELATION * self.spread * LENGTH_SPREAD
        return exp(log(MEDIAN_SPEEDUP) - (self.spread**2 - 2 * covariance) / 2)

    def draw(self, random: np.random.Generator) -> tuple[Rate, Rate]:
        """Return a sample as baseline and arm: the same tokens [P, R], seconds with their noise."""
        first, second = random.standard_normal((2, self.prompts))
        speedup = MEDIAN_SPEEDUP * np.exp(self.spread * first)
        correlated = CORRELATION * first + (1 - CORRELATION**2) ** 0.5 * second
        lengths = 100 * np.exp(LENGTH_SPREAD * correlated)
        tokens = np.repeat(lengths[:, None], self.rounds, axis=1)
        # A log ratio of two noisy sides has the variance of both.
        shape = (2, self.prompts, self.rounds)
        noise = random.normal(0, self.round_sd / 2**0.5, (2, 1, self.rounds))
        noise = np.exp(noise + random.normal(0, self.request_sd / 2**0.5, shape))
        return Rate(tokens * noise[0], tokens), Rate(tokens / speedup[:, None] * noise[1], tokens)

    def coverage(self, scope: Scope, draws: int, truth: float | None = None) -> float:
        """Return how often the interval of `scope` holds the truth, or another value."""
        return self.check(scope, draws, truth)[0]

    def check(self, scope: Scope, draws: int, truth: float | None = None) -> tuple[float, float]:
        """Return the coverage, and the mean half-width of the interval on the log scale."""
        random = np.random.default_rng(7)
        asked = self.truth if truth is None else truth
        hits, width = 0, 0.0
        for _ in range(draws):
            found = log_ratio(*self.draw(random), scope)
            low, high = (found and found.interval()) or (nan, nan)
            hits += low <= asked <= high
            width += log(high / low) / 2
        return hits / draws, width / draws


TABLE = (
    Twin(),
    Twin(request_sd=0.05),
    Twin(round_sd=0.1),
    Twin(rounds=8),
    Twin(prompts=140),
    Twin(prompts=24),
    Twin(prompts=12),
    Twin(spread=0.05, request_sd=0.1),
    Twin(prompts=12, spread=0.05, request_sd=0.1),
)


def main(draws: int) -> None:
    print(
        f"{draws} draws each; a coverage of 95 % is known to {196 * (0.0475 / draws) ** 0.5:.1f} %"
    )
    for twin in TABLE:
        covered, width = twin.check("workload", draws)
        alone = twin.coverage("prompts", draws)
        print(f"{covered:6.1%}  rounds only {alone:6.1%}  half-width {width:5.1%}  {twin}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
