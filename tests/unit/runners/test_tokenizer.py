"""Chats become text by the model's own template, once, for all arms."""

from pathlib import Path

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.lab.catalogue import resolve
from dflash_bench.runners.tokenizer import TargetTokenizer
from dflash_bench.workloads.prompts import Message

ASKED: list[Message] = [{"role": "user", "content": "How many?"}]


def tokenizer(name: str = "lab", **template_kwargs: object) -> TargetTokenizer:
    return TargetTokenizer(Path(resolve(name, "target")), template_kwargs)


def test_a_chat_ends_where_the_answer_begins() -> None:
    assert tokenizer().render(ASKED) == (
        "<|im_start|>user\nHow many?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_without_a_template_messages_are_joined_plainly() -> None:
    plain = tokenizer("markov")
    plain._tokenizer.chat_template = None
    assert not plain.has_chat_template
    assert plain.render(ASKED) == "How many?\n\n"


@pytest.mark.parametrize("text", ["x = 1\n", "naïve 🙂", "  two  spaces", "<|im_end|>"])
def test_text_survives_encoding(text: str) -> None:
    lab = tokenizer()
    assert lab.decode(lab.encode(text)) == text


def test_special_tokens_that_a_template_spells_out_are_single_tokens() -> None:
    lab = tokenizer()
    assert len(lab.encode("<|im_start|>")) == 1


def test_what_we_set_ourselves_cannot_be_overridden() -> None:
    with pytest.raises(ConfigError, match=r"chat_template_kwargs\.tokenize"):
        tokenizer(tokenize=True)


def test_a_template_that_refuses_is_a_sentence(tmp_path: Path) -> None:
    lab = tokenizer()
    lab._tokenizer.chat_template = "{{ raise_exception('no user here') }}"
    with pytest.raises(ConfigError, match="refuses a prompt: no user here"):
        lab.render(ASKED)


def test_a_folder_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no tokenizer"):
        TargetTokenizer(tmp_path, {})
