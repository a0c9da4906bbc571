"""The whole mixture: which families, how many rows of each, and how often each is seen in training."""

from __future__ import annotations

from pathlib import Path

from dflash_bench.lab.corpus import chat, copying, functions, gsm8k, stdlib, word_problems
from dflash_bench.lab.corpus.row import Row

TRAIN_SEED = 1
HELD_OUT_SEED = 2
GENERATED = {
    word_problems.FAMILY: word_problems.rows,
    functions.FAMILY: functions.rows,
    copying.FAMILY: copying.rows,
    chat.FAMILY: chat.rows,
}
FAMILIES = (gsm8k.FAMILY, stdlib.FAMILY, *GENERATED)
# Distinct rows drawn for training; the published families bring what they have.
NUM_TRAIN_ROWS = {"word_problems": 12000, "functions": 10000, "copying": 8000, "chat": 6000}
# Passes over each family's rows in the target's training.
EPOCHS = {"gsm8k": 3, "stdlib": 2, "word_problems": 1, "functions": 1, "copying": 1, "chat": 1}


def train_rows(data_dir: Path | None = None) -> dict[str, list[Row]]:
    """Return the training side of every family, each row once."""
    drawn = {
        name: rows(TRAIN_SEED, NUM_TRAIN_ROWS[name], held_out=False)
        for name, rows in GENERATED.items()
    }
    return {
        gsm8k.FAMILY: gsm8k.load(data_dir, held_out=False),
        stdlib.FAMILY: stdlib.load(held_out=False),
        **drawn,
    }


def held_out_rows(count: int, data_dir: Path | None = None) -> dict[str, list[Row]]:
    """Return up to `count` rows of the held-out side of every family."""
    drawn = {name: rows(HELD_OUT_SEED, count, held_out=True) for name, rows in GENERATED.items()}
    published = {
        gsm8k.FAMILY: gsm8k.load(data_dir, held_out=True),
        stdlib.FAMILY: stdlib.load(held_out=True),
    }
    return {**{name: rows[:count] for name, rows in published.items()}, **drawn}
