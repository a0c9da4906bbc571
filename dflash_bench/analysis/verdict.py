"""HELPS, NEUTRAL, HURTS or UNPROVEN: what the interval of the speedup allows to be said.

With a margin delta, a method HELPS if its speedup lies above 1 + delta, HURTS below 1 / (1 + delta), is NEUTRAL
between. Each is a claim with a p-value; the claim of a 95 % interval that lies wholly in a region is p <= 0.05. A
claim that does not reach it is UNPROVEN. Many comparisons share one risk of a false claim: their p-values are
adjusted after Holm, but for the primary cell, named before the run, which keeps its own.

Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6,
1979.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from dflash_bench.analysis.stats import LogRatio

Verdict = Literal["HELPS", "NEUTRAL", "HURTS", "UNPROVEN"]
Key = tuple[str, str]  # (cell, arm)
ALPHA = 0.05
MIN_ROUNDS = 4  # fewer say nothing about the spread between rounds


class Claim(NamedTuple):
    """The claim that the data speak for most, and the two-sided p-value against it."""

    verdict: Verdict
    p: float


def best_claim(ratio: LogRatio, delta: float) -> Claim:
    """Return the claim with the smallest p-value.

    p is twice the one-sided value, so that p <= 0.05 says the same as "the 95 % interval lies wholly in the region".
    NEUTRAL needs both of its sides: two one-sided tests (D. J. Schuirmann, 1987).
    """
    upper, lower = 1 + delta, 1 / (1 + delta)
    claims = (
        Claim("HELPS", 2 * ratio.p_above(upper)),
        Claim("HURTS", 2 * ratio.p_below(lower)),
        Claim("NEUTRAL", 2 * max(ratio.p_below(upper), ratio.p_above(lower))),
    )
    verdict, p = min(claims, key=lambda claim: claim.p)
    return Claim(verdict, min(1.0, p))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order given."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def adjusted_claims(claims: Mapping[Key, Claim], primary: str | None) -> dict[Key, Claim]:
    """Adjust the claims of all (cell, arm) but those of the `primary` cell, which are tested at the full alpha."""
    others = [key for key in claims if key[0] != primary]
    values = holm([claims[key].p for key in others])
    return dict(claims) | {
        key: claims[key]._replace(p=p) for key, p in zip(others, values, strict=True)
    }


def decide(
    claim: Claim | None, rounds: int, different: int, broken: int = 0, lossy: bool = False
) -> Verdict:
    """Return the verdict: that of an adjusted `claim`, if it is significant and may be made.

    Nothing is claimed from records that contradict themselves (`broken` identities), and no help from an arm with
    `different` outputs, or with a `lossy` rule.
    """
    if claim is None or claim.p > ALPHA or rounds < MIN_ROUNDS or broken:
        return "UNPROVEN"
    if claim.verdict == "HELPS" and (different or lossy):
        return "UNPROVEN"
    return claim.verdict
