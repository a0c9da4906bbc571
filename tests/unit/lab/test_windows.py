"""Windows have equal lengths, begin with a document and weigh answers above prompts."""

import itertools

import pytest
from transformers import PreTrainedTokenizerFast

from dflash_bench.lab.corpus.row import Row
from dflash_bench.lab.windows import PROMPT_WEIGHT, Document, pack, stream, to_document


def document(start: int, length: int) -> Document:
    """A document of consecutive ids."""
    return Document(list(range(start, start + length)), [1.0] * length)


def test_every_window_is_full_and_begins_with_a_document() -> None:
    starts = range(0, 7000, 100)
    windows = list(pack((document(s, 30 + s // 100) for s in starts), 64))
    assert len(windows) > 20
    assert all(len(w.ids) == len(w.weights) == 64 for w in windows)
    assert all(w.ids[0] % 100 == 0 for w in windows)


def test_a_cut_document_begins_the_next_window() -> None:
    first, second = itertools.islice(
        pack([document(0, 40), document(100, 40), document(200, 40)], 64), 2
    )
    assert first.ids == [*range(40), *range(100, 124)]
    assert second.ids == [*range(100, 140), *range(200, 224)]


def test_a_document_longer_than_a_window_is_cut_once() -> None:
    first, second = pack([document(0, 100), document(200, 64)], 64)
    assert first.ids == list(range(64))
    assert second.ids == list(range(200, 264))


def test_the_answer_and_its_end_weigh_one(lab_tokenizer: PreTrainedTokenizerFast) -> None:
    found = to_document(lab_tokenizer, Row("chat", "Say yes.", "yes"))
    heavy = [i for i, w in zip(found.ids, found.weights, strict=True) if w == 1.0]
    assert lab_tokenizer.decode(heavy) == "yes<|im_end|>"
    assert set(found.weights) == {PROMPT_WEIGHT, 1.0}


@pytest.mark.parametrize("filled", [True, False])
def test_the_stream_is_seeded(filled: bool) -> None:
    rows = {"chat": [Row("chat", f"prompt {i}", f"answer {i}") for i in range(20)]}
    once, again, other = (
        list(itertools.islice(stream(rows, seed, filled=filled), 50)) for seed in (1, 1, 2)
    )
    assert once == again
    assert once != other
