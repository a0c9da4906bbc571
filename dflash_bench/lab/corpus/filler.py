"""Long prompts: real text of the same family put in front of the question, as a workload does for a context length."""

from __future__ import annotations

import random
from collections.abc import Sequence

from dflash_bench.lab.corpus.row import Row

SEPARATOR = "\n\n"


def with_filler(row: Row, rows: Sequence[Row], num_chars: int, rng: random.Random) -> Row:
    """Return `row` with about `num_chars` characters of other rows' prompts and answers before its prompt."""
    pieces: list[str] = []
    missing = num_chars
    while missing > 0:
        other = rng.choice(rows)
        text = f"{other.prompt}\n{other.answer}"[-missing:]
        missing -= len(text) + len(SEPARATOR)
        pieces.append(text)
    return Row(row.family, SEPARATOR.join([*pieces, row.prompt]), row.answer)
