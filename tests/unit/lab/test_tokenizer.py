"""The tokenizer keeps text, splits digits and knows its special tokens."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from dflash_bench.lab import tokenizer


@pytest.mark.parametrize(
    "text", ["def f(x):\n    return x\n", "costs $1,234.50", "naïve ünïcödé 🎈", "  two  spaces "]
)
def test_text_comes_back(lab_tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    assert lab_tokenizer.decode(tokenizer.encode(lab_tokenizer, text)) == text


def test_digits_are_single_tokens(lab_tokenizer: PreTrainedTokenizerFast) -> None:
    assert len(tokenizer.encode(lab_tokenizer, "2026")) == 4


def test_special_tokens_have_the_first_ids(lab_tokenizer: PreTrainedTokenizerFast) -> None:
    assert lab_tokenizer.convert_tokens_to_ids(list(tokenizer.SPECIAL_TOKENS)) == [0, 1, 2, 3]
    assert lab_tokenizer.eos_token == tokenizer.TURN_END


def test_the_chat_template_is_what_training_sees(lab_tokenizer: PreTrainedTokenizerFast) -> None:
    rendered = lab_tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hello"}], tokenize=False, add_generation_prompt=True
    )
    assert rendered == tokenizer.prompt_text("Hello")


def test_saved_files_load_as_any_models_do(
    lab_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    tokenizer.save(lab_tokenizer, tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = tokenizer.prompt_text("Add 12 and 30.")
    assert loaded(text, add_special_tokens=False)["input_ids"] == tokenizer.encode(
        lab_tokenizer, text
    )
    assert loaded.chat_template == tokenizer.CHAT_TEMPLATE
    assert tokenizer.encode(tokenizer.load(tmp_path), text) == tokenizer.encode(lab_tokenizer, text)
