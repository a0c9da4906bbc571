"""Templates substitute by name and leave every other brace alone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_bench.errors import ConfigError
from dflash_bench.workloads.rows import Row
from dflash_bench.workloads.template import as_text, fill


def row(**fields: Any) -> Row:
    return Row("data.jsonl, line 7", fields)


@given(st.text())
def test_data_stands_in_the_prompt_as_it_is(value: str) -> None:
    assert fill("<{question}>", row(question=value)) == f"<{value}>"


def test_braces_of_the_data_are_not_filled_again() -> None:
    assert fill("{a}", row(a="{b} {}", b="no")) == "{b} {}"


def test_empty_braces_of_the_template_stay() -> None:
    assert fill(r"{a} in \boxed{}", row(a=1)) == r"1 in \boxed{}"


def test_a_list_is_written_one_entry_a_line() -> None:
    assert fill("{tests}", row(tests=["a", "b"])) == "a\nb"


@pytest.mark.parametrize("value", [None, True, {"a": 1}, [1]])
def test_other_values_are_refused_by_place_and_name(value: Any) -> None:
    with pytest.raises(ConfigError, match="line 7: 'a' is neither"):
        fill("{a}", row(a=value))


def test_a_missing_field_is_named_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"line 7: has no 'question'. Did you mean 'questions'\?"):
        fill("{question}", row(questions="x"))


@pytest.mark.parametrize("key", ["\x1b[2Jquestion", "ques\ntion", "question\ud800"])
def test_the_keys_of_a_row_are_printable_in_messages(key: str) -> None:
    with pytest.raises(ConfigError, match="has no 'question'") as missing:
        fill("{question}", row(**{key: "x"}))
    with pytest.raises(ConfigError, match="is neither") as unfit:
        as_text("line 7", key, None)
    assert missing.value.message.isprintable()
    assert unfit.value.message.isprintable()
