"""Keys are hidden by the names they go by, and nothing else is."""

import pytest

from dflash_bench.records.secrets import (
    HIDDEN,
    hidden_flags,
    hidden_words,
    is_secret,
    without_secrets,
)


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "--api-key", "MY_KEYS", "accessToken", "X_AUTH", "db_password", "secretId"]
)
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["--max-tokens", "tokenizer", "author", "eos_token", "monkey", "keyed", "token_ids"]
)
def test_what_only_looks_like_one_is_not(name: str) -> None:
    assert not is_secret(name)


def test_values_of_secret_flags_are_hidden_in_both_forms() -> None:
    words = ["vllm", "--api-key", "sk-1", "--token=hf-2", "--port", "80", "--api-key", "--flag"]
    expected = ["vllm", "--api-key", HIDDEN, f"--token={HIDDEN}", "--port", "80"]
    assert hidden_words(words) == [*expected, "--api-key", "--flag"]


def test_settings_are_searched_to_the_bottom() -> None:
    told = {"a": [{"api_key": "x", "n": 1}], "empty_key": ""}
    assert without_secrets(told) == {"a": [{"api_key": HIDDEN, "n": 1}], "empty_key": ""}
    arms = {"arms": {"ar": {"flags": ["--token", "x"]}}, "flags": ("--a", "1")}
    assert hidden_flags(arms) == {
        "arms": {"ar": {"flags": ["--token", HIDDEN]}},
        "flags": ["--a", "1"],
    }
