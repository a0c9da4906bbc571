"""A shaped prompt has the asked length in final tokens, real text in front, and a beginning of its own."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_bench.errors import ConfigError
from dflash_bench.workloads.filler import OPENING_CHARS, FillerSource, filler_source
from dflash_bench.workloads.load import load_items
from dflash_bench.workloads.prompts import Item
from dflash_bench.workloads.shape import render_prompts, shape
from dflash_bench.workloads.workload import load_workload
from tests.unit.workloads.tokenizers import ByteTokenizer, WordTokenizer

SENTENCE = "Zoë buys seven apples, then two pears 🍐 at $3 each; how much is left of her money?"
WORDS = SENTENCE.split()
FILLER = FillerSource("mine", tuple(" ".join([f"{n}.", *WORDS[n % 9 :]]) for n in range(60)))


def chat(name: str, *contents: str) -> Item:
    roles = ("user",) if len(contents) == 1 else ("system", "user", "assistant", "user")
    messages = [{"role": r, "content": c} for r, c in zip(roles, contents, strict=True)]
    return Item(name, None, tuple({"role": m["role"], "content": m["content"]} for m in messages))


QUESTIONS = [chat(str(n), f"What is {n} + {n}?") for n in range(8)]


@given(st.integers(60, 900), st.integers(0, 99), st.text(min_size=1, max_size=30))
def test_bytes_land_between_95_percent_and_the_length(length: int, seed: int, text: str) -> None:
    items = [chat("a", text), Item("b", text, None), Item("c", "Hi", None)]
    too_long = [p for p in render_prompts(items, ByteTokenizer()) if len(p.ids) > length]
    shaped = shape(items, ByteTokenizer(), length, FILLER, seed)
    assert shaped.left_out == len(too_long)
    for prompt in shaped.prompts:
        assert 0.95 * length <= len(prompt.ids) <= length


@given(st.integers(40, 400), st.integers(0, 99))
def test_words_that_merge_at_the_seams_land_there_too(length: int, seed: int) -> None:
    tokenizer = WordTokenizer()
    shaped = shape(QUESTIONS, tokenizer, length, FILLER, seed)
    assert shaped.left_out == 0
    for prompt in shaped.prompts:
        assert 0.95 * length <= len(prompt.ids) <= length
        assert list(prompt.ids) == tokenizer.encode(prompt.text)


def test_without_a_length_prompts_stay_as_they_are() -> None:
    tokenizer = ByteTokenizer()
    shaped = shape(QUESTIONS, tokenizer, None, None, 0)
    assert shaped.prompts == render_prompts(QUESTIONS, tokenizer)
    assert shaped.left_out == 0


def test_the_question_stands_last() -> None:
    [prompt] = shape(QUESTIONS[:1], ByteTokenizer(), 500, FILLER, 0).prompts
    assert prompt.text.startswith("<user>")
    assert prompt.text.endswith("\n\nWhat is 0 + 0?<assistant>")


def test_the_text_in_front_is_whole_rows_and_one_cut_row() -> None:
    [prompt] = shape(QUESTIONS[:1], ByteTokenizer(), 500, FILLER, 0).prompts
    *whole, cut, _ = prompt.text.removeprefix("<user>").split("\n\n")
    assert len(whole) >= 3
    assert set(whole) <= set(FILLER.texts)
    assert any(text.startswith(cut) for text in FILLER.texts)


@pytest.mark.parametrize("length", range(200, 260))
def test_a_cut_never_leaves_half_a_character(length: int) -> None:
    shaped = shape(QUESTIONS, ByteTokenizer(), length, FILLER, 0)
    assert not any("\ufffd" in prompt.text for prompt in shaped.prompts)


def test_filler_goes_into_the_first_user_message() -> None:
    item = chat("a", "Be brief.", "Hi", "Hello", "And?")
    [prompt] = shape([item], ByteTokenizer(), 300, FILLER, 0).prompts
    assert prompt.text.startswith("<system>Be brief.<user>")
    assert prompt.text.endswith("\n\nHi<assistant>Hello<user>And?<assistant>")


def test_filler_goes_before_a_plain_text() -> None:
    [prompt] = shape([Item("a", "Once upon a time", None)], ByteTokenizer(), 300, FILLER, 0).prompts
    assert prompt.text.endswith("\n\nOnce upon a time")


def test_no_two_prompts_share_a_beginning() -> None:
    items = [chat(str(n), "And now?") for n in range(len(FILLER.texts))]
    prompts = shape(items, ByteTokenizer(), 400, FILLER, 0).prompts
    openings = {prompt.text.removeprefix("<user>").split("\n\n")[0] for prompt in prompts}
    assert openings == set(FILLER.texts)


def test_the_same_seed_gives_the_same_prompts_and_another_seed_others() -> None:
    def hashes(seed: int) -> list[str]:
        return [p.sha256 for p in shape(QUESTIONS, ByteTokenizer(), 400, FILLER, seed).prompts]

    assert hashes(0) == hashes(0)
    assert not set(hashes(0)) & set(hashes(1))


def test_longer_prompts_are_left_out_and_counted() -> None:
    items = [chat("short", "Hi"), chat("long", "Hi " * 100)]
    shaped = shape(items, ByteTokenizer(), 200, FILLER, 0)
    assert [prompt.id for prompt in shaped.prompts] == ["short"]
    assert shaped.left_out == 1


class CoarseTokenizer(ByteTokenizer):
    """Puts 40 tokens more before every text that holds a blank line, so that a little filler is too much."""

    def encode(self, text: str) -> list[int]:
        return [0] * (40 if "\n\n" in text else 0) + super().encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        return super().decode([i for i in ids if i])


def test_prompts_for_which_no_cut_fits_are_left_out_and_counted() -> None:
    items = [chat("long enough", "x" * 180), chat("between", "x" * 160)]  # rendered: 17 bytes more
    shaped = shape(items, CoarseTokenizer(), 200, FILLER, 0)
    assert [prompt.id for prompt in shaped.prompts] == ["long enough"]
    assert shaped.left_out == 1


def test_where_no_cut_fits_any_prompt_a_longer_context_is_advised() -> None:
    with pytest.raises(ConfigError, match="brought to 200 tokens") as caught:
        shape([chat("between", "x" * 160)], CoarseTokenizer(), 200, FILLER, 0)
    assert caught.value.remedy.startswith("Ask for a longer context")


def test_a_prompt_that_is_long_enough_gets_no_filler() -> None:
    [plain] = render_prompts(QUESTIONS[:1], ByteTokenizer())
    shaped = shape(QUESTIONS[:1], ByteTokenizer(), len(plain.ids), FILLER, 0)
    assert shaped.prompts == [plain]


def test_where_nothing_remains_the_error_says_what_would_do() -> None:
    items = [chat("a", "x" * 100), chat("b", "x" * 180)]  # rendered: 17 bytes more
    with pytest.raises(ConfigError, match=r"brought to 64 tokens: .* 117 to 197") as caught:
        shape(items, ByteTokenizer(), 64, FILLER, 0)
    assert "197 or more" in caught.value.remedy


def test_too_little_filler_is_refused_with_its_size() -> None:
    small = FillerSource("mine", ("only this",))
    with pytest.raises(ConfigError, match="has 9 tokens, not 500"):
        shape(QUESTIONS[:1], ByteTokenizer(), 500, small, 0)


def test_a_length_without_filler_is_refused() -> None:
    with pytest.raises(ConfigError, match="no text to fill"):
        shape(QUESTIONS, ByteTokenizer(), 500, None, 0)


def test_gsm8k_prompts_begin_with_different_words(authors_data: Path) -> None:
    workload = load_workload("gsm8k")
    items = load_items(workload, 64, str(authors_data))
    filler = filler_source(workload, str(authors_data))
    prompts = shape(items, ByteTokenizer(), 4096, filler, 0).prompts
    assert len({prompt.text.removeprefix("<user>")[:OPENING_CHARS] for prompt in prompts}) == 64
