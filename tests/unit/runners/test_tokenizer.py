"""Chats become text by the model's own template, once, for all arms."""

import contextlib
import shutil
from inspect import signature
from pathlib import Path

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.lab.catalogue import resolve
from dflash_bench.runners.tokenizer import OURS, TargetTokenizer
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


@pytest.mark.parametrize(
    "name", ["tokenize", "messages", "conversation", "continue_final_message", "chat_template"]
)
def test_what_we_set_ourselves_cannot_be_overridden(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"chat_template_kwargs\.{name}: is set by"):
        TargetTokenizer(Path(resolve("lab", "target")), {name: True})


def test_every_parameter_of_transformers_is_ours_or_the_templates() -> None:
    lab = tokenizer()
    parameters = signature(lab._tokenizer.apply_chat_template).parameters
    for_templates = {"tools", "documents", "sanitize_control_tokens", "kwargs"}
    assert set(parameters) <= OURS | for_templates


def test_a_template_that_refuses_is_a_sentence(tmp_path: Path) -> None:
    lab = tokenizer()
    lab._tokenizer.chat_template = "{{ raise_exception('no user here') }}"
    with pytest.raises(ConfigError, match="refuses a prompt: no user here"):
        lab.render(ASKED)


@pytest.mark.parametrize(
    "template",
    ["{{ messages + 1 }}", "{{ 'a'.index('b') }}", "{{ 1 / 0 }}", "{{ 1 | foo }}"],
)
def test_a_template_that_fails_is_a_sentence(template: str) -> None:
    lab = tokenizer()
    lab._tokenizer.chat_template = template
    with pytest.raises(ConfigError, match="refuses a prompt"):
        lab.render(ASKED)


def test_keywords_that_the_template_cannot_take_are_a_sentence() -> None:
    with pytest.raises(ConfigError, match="refuses a prompt") as caught:
        tokenizer(tools=5).render(ASKED)
    assert "chat_template_kwargs" in caught.value.remedy


@pytest.mark.parametrize("kept", [(), ("config.json",), ("config.json", "tokenizer_config.json")])
def test_a_folder_without_a_tokenizer_is_named(tmp_path: Path, kept: tuple[str, ...]) -> None:
    for name in kept:
        shutil.copy(Path(resolve("lab", "target")) / name, tmp_path)
    with pytest.raises(ConfigError, match="holds no tokenizer"):
        TargetTokenizer(tmp_path, {})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", "{}"),
        ("tokenizer.json", "garbage"),
        ("tokenizer_config.json", "[]"),
        ("tokenizer_config.json", '{"extra_special_tokens": 5}'),
    ],
)
def test_a_broken_tokenizer_is_a_sentence(tmp_path: Path, name: str, content: str) -> None:
    for file in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(Path(resolve("lab", "target")) / file, tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match="holds no tokenizer that can be loaded"):
        TargetTokenizer(tmp_path, {})


def test_code_in_a_models_folder_is_never_run(tmp_path: Path) -> None:
    shutil.copy(Path(resolve("lab", "target")) / "tokenizer.json", tmp_path)
    auto = '{"auto_map": {"AutoTokenizer": ["evil.Evil", null]}, "tokenizer_class": "Evil"}'
    (tmp_path / "tokenizer_config.json").write_text(auto)
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: ...\n")
    with contextlib.suppress(ConfigError):
        TargetTokenizer(tmp_path, {})
    assert not (tmp_path / "ran").exists()
