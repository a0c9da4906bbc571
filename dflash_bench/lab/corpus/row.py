"""One example of the training mixture, and the rule that keeps training and held-out rows apart.

The split is a property of the prompt itself: a hash of its text decides. So no seed, family or order of drawing
can ever put the same prompt on both sides.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import NamedTuple

HELD_OUT_SHARE = 1 / 16


class Row(NamedTuple):
    """A prompt and the answer that a model should learn to give; plain text, no chat markup."""

    family: str
    prompt: str
    answer: str


def is_held_out(prompt: str) -> bool:
    """Say whether a prompt belongs to the held-out sixteenth (first byte of its SHA-256)."""
    return hashlib.sha256(prompt.encode()).digest()[0] < 256 * HELD_OUT_SHARE


def draw(
    family: str,
    make: Callable[[random.Random], tuple[str, str]],
    *,
    seed: int,
    count: int,
    held_out: bool,
) -> list[Row]:
    """Draw up to `count` rows with distinct prompts of one side of the split.

    `make` returns (prompt, answer). Fewer rows come back when the generator runs out of new prompts
    (100 draws in a row that bring nothing new, times the inverse of the split's share).
    """
    rng = random.Random(f"{family}/{seed}")
    rows: dict[str, Row] = {}
    misses = 0
    patience = 100 * round(1 / HELD_OUT_SHARE)
    while len(rows) < count and misses < patience:
        prompt, answer = make(rng)
        if is_held_out(prompt) != held_out or prompt in rows:
            misses += 1
            continue
        misses = 0
        rows[prompt] = Row(family, prompt, answer)
    return list(rows.values())
