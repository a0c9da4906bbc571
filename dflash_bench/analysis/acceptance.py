"""How many tokens a step commits, and at which position of the draft acceptance ends.

A position is a depth: in a chain draft i, in a tree any draft with i - 1 others before it on its path.

The acceptance length tau counts the bonus token and leaves out the prefill's: vLLM's `mean_acceptance_length`, the
paper's tau (arXiv:2602.06036, Eq. 1). It is pooled over steps; its interval resamples prompts, for a prompt's steps
are alike.

A step that was cut at the end of its text says nothing about the positions behind the cut, so rates by position are
over steps that were not cut. Over these, tau = 1 + sum(marginal) holds exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dflash_bench.analysis.steps import NOT_TOLD, Ints, Steps

Floats = NDArray[np.float64]
RESAMPLES = 2000
CHUNK = 1 << 20  # random numbers held at once


@dataclass(frozen=True)
class AcceptanceLength:
    """Committed tokens per verify step: pooled, with a 95 % interval over prompts, and as the mean of requests' own."""

    value: float
    ci_low: float | None
    ci_high: float | None
    per_request_mean: float | None


@dataclass(frozen=True)
class ByPosition:
    """Rates for drafts 1..D over steps that were not cut, and how many of these steps accepted 0..D tokens.

    `conditional` is None at a position that no step reached.
    """

    marginal: list[float]
    conditional: list[float | None]
    histogram: list[int]
    uncut_mean: float | None


def acceptance_length(
    committed: Floats, count: Floats, prompts: Ints, seed: int
) -> AcceptanceLength | None:
    """Return tau from each request's committed tokens and verify steps, both [N], NaN where they are not told.

    `prompts` [N] numbers the prompt of each request, the cluster that is resampled. None if no step is known.
    """
    told = ~np.isnan(count) & ~np.isnan(committed)
    committed, count, prompts = committed[told], count[told], prompts[told]
    if not count.sum():
        return None
    low, high = _bootstrap(_by(prompts, committed), _by(prompts, count), seed)
    stepped = count > 0
    return AcceptanceLength(
        value=float(committed.sum() / count.sum()),
        ci_low=low,
        ci_high=high,
        per_request_mean=float(np.mean(committed[stepped] / count[stepped])),
    )


def _by(prompts: Ints, values: Floats) -> Floats:
    """Sum `values` [N] by prompt, [P]."""
    return np.bincount(prompts, weights=values).astype(np.float64)


def _bootstrap(committed: Floats, steps: Floats, seed: int) -> tuple[float | None, float | None]:
    """Return the 95 % percentile interval of sum(committed) / sum(steps) over resampled prompts, both arguments [P].

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13; clusters as units.
    """
    clusters = np.flatnonzero(steps)
    if len(clusters) < 2:
        return None, None
    committed, steps = committed[clusters], steps[clusters]
    random = np.random.default_rng(seed)
    at_once = max(1, CHUNK // len(clusters))
    ratios: list[Floats] = []
    for start in range(0, RESAMPLES, at_once):
        rows = min(at_once, RESAMPLES - start)
        drawn = random.integers(0, len(clusters), (rows, len(clusters)))
        ratios.append(committed[drawn].sum(axis=1) / steps[drawn].sum(axis=1))
    low, high = np.percentile(np.concatenate(ratios), [2.5, 97.5])
    return float(low), float(high)


def by_position(steps: Steps, tree: bool = False) -> ByPosition:
    """Return the rates of each position of the draft, over steps that were not cut.

    marginal[i] = P(first i drafts all accepted);
    conditional[i] = P(draft i accepted | it was drafted, and those before it were accepted).

    Where depths are not told, a chain's are its drafts, and a `tree` is taken to be as deep as it was ever accepted.
    """
    uncut = steps.cut == 0
    accepted, drafted = steps.accepted[uncut], _reach(steps, tree)[uncut]
    # Accepted beyond drafted is a broken record; that is for the identities to say, not for an index error here.
    depth = max(int(drafted.max(initial=0)), int(accepted.max(initial=0)))
    histogram = np.bincount(accepted, minlength=depth + 1)
    # reached[i]: steps that accepted at least i drafts, i = 0..D
    reached = histogram[::-1].cumsum()[::-1]
    # Of the steps that accepted exactly i, those whose draft was longer were refused at i + 1.
    longer = np.bincount(accepted[drafted > accepted], minlength=depth + 1)
    offered = reached[1:] + longer[:-1]
    return ByPosition(
        marginal=[float(share) for share in reached[1:] / max(1, reached[0])],
        conditional=[
            float(yes / all_) if all_ else None
            for yes, all_ in zip(reached[1:], offered, strict=True)
        ],
        histogram=[int(count) for count in histogram] if len(accepted) else [],
        uncut_mean=float(steps.committed[uncut].mean()) if len(accepted) else None,
    )


def by_histogram(histogram: Sequence[int]) -> ByPosition:
    """Return the same from steps by accepted drafts, as a backend counts them: all drafts are taken to be as long."""
    counts = np.asarray(histogram, dtype=np.int64)
    reached = counts[::-1].cumsum()[::-1]
    steps = int(reached[0]) if len(reached) else 0
    if not steps:
        return ByPosition([], [], [], None)
    return ByPosition(
        marginal=[float(share) for share in reached[1:] / steps],
        conditional=[
            float(yes / all_) if all_ else None
            for yes, all_ in zip(reached[1:], reached[:-1], strict=True)
        ],
        histogram=[int(count) for count in counts],
        uncut_mean=float(1 + (counts * np.arange(len(counts))).sum() / steps),
    )


def _reach(steps: Steps, tree: bool) -> NDArray[np.int16]:
    """Return how deep each step drafted, [S]."""
    deepest = steps.accepted.max(initial=0) if tree else steps.drafted
    return np.where(steps.depth == NOT_TOLD, deepest, steps.depth).astype(np.int16)
