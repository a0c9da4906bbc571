"""Training windows: whole documents packed to fixed lengths, most of them short, some long.

A document is one chat turn with its answer. Every window starts with the beginning of a document, and
positions run on through it; the long windows (15 % of the tokens) are what trains positions up to 1,536.
A document that does not fit ends its window cut and begins the next one whole.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from transformers import PreTrainedTokenizerFast

from dflash_bench.lab.corpus.filler import with_filler
from dflash_bench.lab.corpus.mixture import EPOCHS
from dflash_bench.lab.corpus.row import Row
from dflash_bench.lab.tokenizer import TURN_END, encode, prompt_text

SHORT, LONG = 384, 1536  # tokens
SHORT_ROWS, LONG_ROWS = 16, 4  # windows per step: 6,144 tokens either way
LONG_SHARE = 0.15
FILLER_SHARE = 0.5  # of the documents in long windows
FILLER_CHARS = (300, 3000)  # about 100 to 1,200 tokens
PROMPT_WEIGHT = 0.2


class Document(NamedTuple):
    """Token ids of one turn and the weight of predicting each of them."""

    ids: list[int]
    weights: list[float]


class Batch(NamedTuple):
    """One step's windows: ids [rows, length] int64 and weights [rows, length] float32."""

    ids: torch.Tensor
    weights: torch.Tensor


def to_document(tokenizer: PreTrainedTokenizerFast, row: Row) -> Document:
    """Tokenise a row: the answer and its end weigh 1, the rest `PROMPT_WEIGHT`."""
    prompt = encode(tokenizer, prompt_text(row.prompt))
    answer = encode(tokenizer, row.answer + TURN_END)
    newline = encode(tokenizer, "\n")
    weights = [PROMPT_WEIGHT] * len(prompt) + [1.0] * len(answer) + [PROMPT_WEIGHT] * len(newline)
    return Document(prompt + answer + newline, weights)


def stream(rows: dict[str, list[Row]], seed: int, *, filled: bool) -> Iterator[Row]:
    """Yield rows for ever, each family as often as its epochs say, in a seeded order."""
    rng = random.Random(f"stream/{seed}/{filled}")
    order = [row for family, members in rows.items() for row in members * EPOCHS[family]]
    while True:
        rng.shuffle(order)
        for row in order:
            if filled and rng.random() < FILLER_SHARE:
                yield with_filler(row, rows[row.family], rng.randint(*FILLER_CHARS), rng)
            else:
                yield row


def pack(documents: Iterable[Document], length: int) -> Iterator[Document]:
    """Yield windows of exactly `length` tokens, each beginning with the beginning of a document."""
    ids: list[int] = []
    weights: list[float] = []
    for document in documents:
        ids, weights = ids + document.ids, weights + document.weights
        if len(ids) >= length:
            yield Document(ids[:length], weights[:length])
            fits = len(ids) == length or len(document.ids) >= length
            ids, weights = ([], []) if fits else (list(document.ids), list(document.weights))


def stack(windows: Sequence[Document]) -> Batch:
    """Make one batch of equal windows."""
    return Batch(torch.tensor([w.ids for w in windows]), torch.tensor([w.weights for w in windows]))


def batches(
    tokenizer: PreTrainedTokenizerFast, rows: dict[str, list[Row]], seed: int
) -> Iterator[Batch]:
    """Yield the training batches for ever; the same seed gives the same batches."""
    kind = random.Random(f"kind/{seed}")
    short = pack((to_document(tokenizer, row) for row in stream(rows, seed, filled=False)), SHORT)
    long = pack((to_document(tokenizer, row) for row in stream(rows, seed, filled=True)), LONG)
    while True:
        if kind.random() < LONG_SHARE:
            yield stack([next(long) for _ in range(LONG_ROWS)])
        else:
            yield stack([next(short) for _ in range(SHORT_ROWS)])
