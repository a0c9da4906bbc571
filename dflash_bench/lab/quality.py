"""Is the text fit to speculate on? Whether greedy outputs end by themselves, and whether they loop.

A looping target is easy to draft for and flatters every method, so the model cards state the share of loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dflash_bench.lab.outputs import Output

LOOP_TOKENS = 20


class Quality(NamedTuple):
    """Of one family's outputs: how many, their mean length in tokens, the share that ended, the share that loop."""

    num_outputs: int
    mean_tokens: float
    ended_share: float
    looping_share: float


def has_loop(tokens: Sequence[int], size: int = LOOP_TOKENS) -> bool:
    """Tell whether any run of `size` tokens occurs twice."""
    runs = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return len(set(runs)) < len(runs)


def quality(outputs: Iterable[Output], stop_ids: frozenset[int]) -> dict[str, Quality]:
    """Return the figures of every family."""
    by_family: dict[str, list[list[int]]] = {}
    for output in outputs:
        by_family.setdefault(output.family, []).append(output.output)
    return {
        family: Quality(
            num_outputs=len(texts),
            mean_tokens=sum(map(len, texts)) / len(texts),
            ended_share=sum(text[-1] in stop_ids for text in texts) / len(texts),
            looping_share=sum(has_loop(text) for text in texts) / len(texts),
        )
        for family, texts in by_family.items()
    }
