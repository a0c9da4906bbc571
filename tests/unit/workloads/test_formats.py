"""A user's row says by its one key what is asked, and anything else is refused by name."""

from typing import Any

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.workloads.formats import item_from_row
from dflash_bench.workloads.prompts import Item, Message
from dflash_bench.workloads.rows import Row


def item(**fields: Any) -> Item:
    return item_from_row(Row("mine.jsonl, line 3", fields), "mine/2")


def said(role: str, content: str) -> Message:
    return {"role": role, "content": content}


CHAT = [
    said("system", "Be brief."),
    said("user", "Hi"),
    said("assistant", "Hello"),
    said("user", "2+2?"),
]
SHAREGPT = [
    {"from": "system", "value": "Be brief."},
    {"from": "human", "value": "Hi"},
    {"from": "gpt", "value": "Hello"},
    {"from": "human", "value": "2+2?"},
]


def test_text_is_no_chat() -> None:
    assert item(text=" as it is\n") == Item("mine/2", " as it is\n", None)


def test_prompt_is_one_user_message() -> None:
    assert item(prompt="Hi").messages == (said("user", "Hi"),)


def test_messages_are_a_chat() -> None:
    assert item(messages=CHAT).messages == tuple(CHAT)


def test_of_turns_the_first_is_asked() -> None:
    assert item(turns=["Hi", "And then?"]).messages == (said("user", "Hi"),)


def test_sharegpt_is_the_same_chat() -> None:
    assert item(conversations=SHAREGPT) == item(messages=CHAT)


def test_answers_at_the_end_are_left_to_the_model() -> None:
    assert item(messages=[*CHAT, said("assistant", "4")]).messages == tuple(CHAT)
    assert item(conversations=[*SHAREGPT, {"from": "gpt", "value": ""}]).messages == tuple(CHAT)


def test_id_and_answer_are_kept_as_text() -> None:
    found = item(prompt="2+2?", id=17, answer=4)
    assert (found.id, found.answer) == ("17", "4")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"question": "Hi"}, "has no key that says what to ask"),
        ({"prompt": "Hi", "text": "Hi"}, "has both 'text' and 'prompt'"),
        ({"prompt": 5}, "'prompt' is not text"),
        ({"text": "  \n"}, "'text' is empty"),
        ({"turns": []}, "'turns' is not a list with entries"),
        ({"turns": [""]}, r"'turns\[0\]' is empty"),
        ({"turns": "Hi"}, "'turns' is not a list"),
        ({"messages": ["Hi"]}, r"'messages\[0\]' is not an object"),
        ({"messages": [said("robot", "Hi")]}, r"'messages\[0\].role' is 'robot'"),
        (
            {"messages": [{"role": ["user"], "content": "Hi"}]},
            r"'messages\[0\].role' is \['user'\]",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "content' is not text"),
        ({"messages": [said("assistant", "Hi")]}, "no user turn to answer"),
        ({"messages": [said("user", "Hi"), said("system", "x")]}, "no user turn to answer"),
        ({"conversations": [{"from": "human"}]}, r"'conversations\[0\].value' is not text"),
        ({"prompt": "Hi", "id": {}}, "'id' is neither"),
    ],
)
def test_other_rows_are_refused_by_file_line_and_key(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^mine.jsonl, line 3: .*{message}"):
        item(**fields)
