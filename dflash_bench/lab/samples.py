"""The prompt samples of the project: `workloads/prompts/sample-{math,code,chat}.jsonl`.

64 rows each from the held-out side of our own generators, and beside them 200 rows of the training side
as filler text for long contexts. Everything is generated: no published data set is copied into the project.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from dflash_bench.lab.corpus import chat, copying, functions, word_problems
from dflash_bench.lab.corpus.mixture import HELD_OUT_SEED, TRAIN_SEED
from dflash_bench.lab.corpus.row import Row

NUM_ROWS = 64
NUM_FILLER_ROWS = 200


class Source(NamedTuple):
    """A family that a sample draws from, and how many of the 64 rows it gives."""

    family: str
    rows: Callable[..., list[Row]]
    num_rows: int


SOURCES = {
    "math": (Source(word_problems.FAMILY, word_problems.rows, 64),),
    "code": (Source(functions.FAMILY, functions.rows, 64),),
    "chat": (Source(chat.FAMILY, chat.rows, 40), Source(copying.FAMILY, copying.rows, 24)),
}


def held_out(name: str) -> list[Row]:
    """Return the sample's rows, its families mixed in a seeded order."""
    rows = [r for s in SOURCES[name] for r in s.rows(HELD_OUT_SEED, s.num_rows, held_out=True)]
    random.Random(name).shuffle(rows)
    return rows


def filler(name: str) -> list[Row]:
    """Return training rows, for the text in front of long prompts: the first that training draws."""
    rows = []
    for source in SOURCES[name]:
        share = round(NUM_FILLER_ROWS * source.num_rows / NUM_ROWS)
        rows += source.rows(TRAIN_SEED, share, held_out=False)
    random.Random(name).shuffle(rows)
    return rows


def write(folder: Path) -> list[Path]:
    """Write all samples into `folder` and return their paths."""
    written = []
    for name in SOURCES:
        numbered = [
            {"id": f"{name}-{i:03d}", **as_fields(row)} for i, row in enumerate(held_out(name))
        ]
        written += [write_lines(folder / f"sample-{name}.jsonl", numbered)]
        written += [
            write_lines(folder / f"sample-{name}.train.jsonl", map(as_fields, filler(name)))
        ]
    return written


def as_fields(row: Row) -> dict[str, str]:
    """Return a row as the fields of a prompt file."""
    return {"prompt": row.prompt, "answer": row.answer}


def write_lines(path: Path, fields: Iterable[dict[str, str]]) -> Path:
    """Write JSON lines."""
    path.write_text(
        "".join(json.dumps(f, ensure_ascii=False) + "\n" for f in fields), encoding="utf-8"
    )
    return path
