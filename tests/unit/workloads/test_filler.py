"""Filler is real text of the training split, and each prompt begins with another row of it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.workloads.filler import OPENING_CHARS, FillerSource, filler_source
from dflash_bench.workloads.workload import Source, Workload, load_workload

SOURCE = FillerSource(
    "mine", tuple(f"{n} begins this text, and each one begins otherwise" for n in range(40))
)


def test_openings_are_all_different() -> None:
    openings = SOURCE.openings(40, seed=0)
    assert sorted(openings) == list(range(40))


def test_openings_prefer_texts_that_begin_differently() -> None:
    alike = tuple(f"{'the same beginning of all'}: {n}" for n in range(50))
    source = FillerSource("mine", (*alike, *(f"{n}: another" for n in range(5))))
    begun = [source.texts[n][:OPENING_CHARS] for n in source.openings(6, seed=0)]
    assert len(set(begun)) == 6


def test_more_prompts_than_texts_are_refused() -> None:
    with pytest.raises(ConfigError, match="40 texts, too few to begin 41 prompts"):
        SOURCE.openings(41, seed=0)


def test_each_text_comes_once_and_the_opening_first() -> None:
    texts = list(SOURCE.before("a", 7, seed=0))
    assert texts[0] == SOURCE.texts[7]
    assert sorted(texts) == sorted(SOURCE.texts)


def test_order_depends_on_prompt_and_seed_alone() -> None:
    def order(prompt: str, seed: int) -> Sequence[str]:
        return list(SOURCE.before(prompt, 0, seed))

    assert order("a", 0) == order("a", 0)
    assert order("a", 0) != order("b", 0)
    assert order("a", 0) != order("a", 1)


def test_equal_texts_are_kept_once_and_the_pattern_taken_out(tmp_path: Path) -> None:
    (tmp_path / "gsm8k_train.jsonl").write_text(
        '{"question": "1+1?", "answer": "It is <<1+1=2>>2."}\n' * 2, encoding="utf-8"
    )
    assert filler_source(load_workload("gsm8k"), str(tmp_path)).texts == ("1+1?\nIt is 2.",)


def test_a_workload_without_filler_says_so() -> None:
    bare = Workload(name="mine", title="", version=1, licence="", source=Source(path="x"))
    with pytest.raises(ConfigError, match="'mine' names no text to fill"):
        filler_source(bare)


def test_filler_lies_beside_a_data_file(authors_data: Path) -> None:
    source = filler_source(load_workload("gsm8k"), str(authors_data / "gsm8k_test.jsonl"))
    assert len(source.texts) == 7473
    assert not any("<<" in text for text in source.texts)


@pytest.mark.parametrize(
    "name", ["sample-math", "sample-code", "sample-chat", "humaneval", "mt-bench"]
)
def test_bundled_fillers_open_64_prompts_with_different_words(name: str) -> None:
    source = filler_source(load_workload(name))
    begun = {source.texts[n][:OPENING_CHARS] for n in source.openings(64, seed=0)}
    assert len(begun) == 64
