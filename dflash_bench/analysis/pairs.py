"""The paired experiment: an arm's requests beside the baseline's, same cell, same prompt, same round.

Both sides become arrays [P, R] (prompts, rounds) of seconds and tokens in the window. A pair that failed on either
side is left out of both and counted: keeping one side would compare different requests. Its place holds zeros, and
sums ignore it.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dflash_bench.analysis.frames import Sample
from dflash_bench.analysis.stats import Rate

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Side:
    """One arm's part of the pairs, each array [P, R]. `decode_tokens` are those committed in steps of the window."""

    wall_s: Floats
    decode_s: Floats
    tokens: Floats
    decode_tokens: Floats
    row_steps: Floats
    output_tokens: Floats

    @property
    def end_to_end(self) -> Rate:
        """Prefill included: what a verdict is about."""
        return Rate(self.wall_s, self.tokens)

    @property
    def decode(self) -> Rate:
        """Without the target's prefill; the drafter's ingestion of the prompt stays in."""
        return Rate(self.decode_s, self.decode_tokens)

    @property
    def steps(self) -> Rate:
        """Decode seconds per active row-step: what a step costs."""
        return Rate(self.decode_s, self.row_steps)


@dataclass(frozen=True)
class Pairs:
    """An arm beside the baseline. `prompts` [P] names rows, `rounds` [R] columns.

    `left_out` counts the pairs that a failure or another prompt on either side took, in rounds that both finished.
    """

    prompts: tuple[str, ...]
    rounds: tuple[int, ...]
    baseline: Side
    arm: Side
    left_out: int


def pair(baseline: Sample, arm: Sample) -> Pairs:
    """Pair `arm` with `baseline` by request, prompt and round."""
    left, right = matched(*(_with_share(side.answered) for side in (baseline, arm)))
    prompts, row = np.unique(left["prompt"].to_numpy(), return_inverse=True)
    rounds, column = np.unique(left["round"].to_numpy(), return_inverse=True)
    shape = (len(prompts), len(rounds))
    return Pairs(
        prompts=tuple(left.drop_duplicates("prompt").sort_values("prompt")["request"]),
        rounds=tuple(rounds.tolist()),
        baseline=_side(left, (row, column), shape),
        arm=_side(right, (row, column), shape),
        left_out=_planned(baseline, arm) - len(left),
    )


def matched(left: pd.DataFrame, right: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the requests that have a partner on the other side, row by row beside it."""
    _, at, partner = np.intersect1d(
        left["pair"].to_numpy(), right["pair"].to_numpy(), assume_unique=True, return_indices=True
    )
    return left.iloc[at], right.iloc[partner]


def _planned(baseline: Sample, arm: Sample) -> int:
    """Return how many pairs there would be had nothing failed, in the rounds that both sides finished."""
    shared = np.intersect1d(baseline.visits["round"], arm.visits["round"])
    turns = [side.requests["turn"][side.requests["round"].isin(shared)] for side in (baseline, arm)]
    return len(np.union1d(*turns))


def _with_share(requests: pd.DataFrame) -> pd.DataFrame:
    return requests[requests["window_tokens"].notna()]


def _side(
    requests: pd.DataFrame, place: tuple[NDArray[np.intp], NDArray[np.intp]], shape: tuple[int, int]
) -> Side:
    """Spread the columns of one side over arrays of `shape`; requests that share a prompt share its row."""

    def spread(column: str) -> Floats:
        values = np.zeros(shape)
        np.add.at(values, place, requests[column].to_numpy(dtype=np.float64))
        return values

    return Side(
        wall_s=spread("window_wall_s"),
        decode_s=spread("window_after_prefill_s"),
        tokens=spread("window_tokens"),
        decode_tokens=spread("window_decode_tokens"),
        row_steps=spread("window_steps"),
        output_tokens=spread("output_tokens"),
    )
