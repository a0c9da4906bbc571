"""Prompt lookup against a search of the whole text, and AR's own text."""

import random

import pytest
import torch

from dflash_bench.engine.draft import Anchors
from dflash_bench.engine.loop import Step, generate
from dflash_bench.engine.methods.ar import AutoregressiveDrafter
from dflash_bench.engine.methods.ngram import NgramDrafter, Text, build
from dflash_bench.engine.sampling import Sampling
from dflash_bench.errors import ConfigError
from tests.unit.engine.tiny import build_requests, build_target, outputs


def search(text: list[int], smallest: int, largest: int, count: int) -> list[int]:
    """Look the last tokens up by reading the whole text backwards."""
    for size in range(largest, smallest - 1, -1):
        for start in range(len(text) - size - 1, -1, -1):
            if text[start : start + size] == text[-size:]:
                return text[start + size : start + size + count]
    return []


@pytest.mark.parametrize(("smallest", "largest"), [(1, 3), (2, 2), (3, 5), (1, 1)])
def test_the_index_finds_what_a_search_of_the_text_finds(smallest: int, largest: int) -> None:
    rng = random.Random(largest)
    text, found = Text(range(smallest, largest + 1)), 0
    for _ in range(150):
        text.extend([rng.randrange(5) for _ in range(rng.randint(1, 4))])
        expected = search(text.tokens, smallest, largest, 4)
        assert text.look_up(4) == expected
        found += bool(expected)
    assert found > 50


def test_the_longest_match_goes_before_a_later_one() -> None:
    text = Text(range(1, 4))
    text.extend([1, 2, 3, 9, 3, 7, 1, 2, 3])
    assert text.look_up(2) == [9, 3]


def test_of_equal_matches_the_latest_is_taken() -> None:
    text = Text(range(1, 4))
    text.extend([5, 1, 8, 5, 2, 8, 5])
    assert text.look_up(1) == [2]


def test_rows_draft_what_they_find() -> None:
    drafter = NgramDrafter(block_size=4)
    drafter.reserve(3, 20)
    for row, tokens in enumerate(([1, 2, 3, 4, 5, 1], [1, 2, 3], [7, 8, 7])):
        drafter.admit(row, tokens, torch.empty(1, 0, 0))
    anchors = Anchors(
        torch.zeros(3).long(), [5, 2, 2], torch.zeros(3).long(), torch.zeros(3).long()
    )
    draft = drafter.draft_block(anchors)
    assert draft.tokens.tolist() == [[2, 3, 4], [0, 0, 0], [8, 7, 0]]
    assert draft.counts is not None
    assert draft.counts.tolist() == [3, 0, 2]
    assert draft.parents is None
    assert draft.probs is None


def test_where_no_row_finds_anything_nothing_is_drafted() -> None:
    drafter = NgramDrafter()
    drafter.reserve(1, 20)
    drafter.admit(0, [1, 2, 3], torch.empty(1, 0, 0))
    anchors = Anchors(torch.tensor([3]), [2], torch.tensor([2]), torch.tensor([0]))
    draft = drafter.draft_block(anchors)
    assert draft.tokens.shape == (1, 0)
    assert draft.tokens.dtype == torch.int64


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_text_is_plain_decodings(temperature: float, batch_size: int) -> None:
    target, sampling = build_target(), Sampling(temperature, seed=5)
    requests = build_requests(6, max_new_tokens=40)
    plain = outputs(target, AutoregressiveDrafter(), requests, 2, sampling)
    assert outputs(target, NgramDrafter(), requests, batch_size, sampling) == plain


def test_a_text_that_repeats_is_drafted_in_few_steps() -> None:
    """Temperature 0 makes the tiny target loop; then whole blocks are accepted."""
    target = build_target()
    requests = build_requests(1, max_new_tokens=120)
    (text,) = outputs(target, AutoregressiveDrafter(), requests).values()
    events = generate(target, NgramDrafter(8), requests, batch_size=1, sampling=Sampling())
    steps = [event.rows[0] for event in events if isinstance(event, Step)]
    assert sum(len(row.tokens) for row in steps) == len(text) - 1
    assert max(row.accepted for row in steps) == 7
    assert any(row.drafted == 0 for row in steps)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"block_size": 1}, "block_size is 1"),
        ({"block_size": "8"}, "block_size is '8'"),
        ({"ngram_min": 0}, "ngram_min is 0"),
        ({"ngram_max": True}, "ngram_max is True"),
        ({"ngram_min": 4}, "ngram_min 4 is above ngram_max 3"),
    ],
)
def test_settings_that_draft_nothing_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as error:
        build(build_target(), settings, {})
    assert error.value.remedy


def test_a_drafter_is_built() -> None:
    drafter = build(build_target(), {"block_size": 5, "ngram_min": None, "ngram_max": 2}, {})
    assert drafter.block_size == 5
    assert drafter._sizes == range(1, 3)
    assert build(build_target(), {}, {}).block_size == 8
