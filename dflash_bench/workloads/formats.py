"""The rows that a user may write: one key says what is asked, and its name says how.

    {"text": "..."}                                        sent as it is, no chat template
    {"prompt": "..."}                                      one user message
    {"messages": [{"role": "user", "content": "..."}]}     a chat
    {"turns": ["...", "..."]}                              the first user turn; the later ones need the model's answers
    {"conversations": [{"from": "human", "value": "..."}]} ShareGPT, a chat

A chat that ends with the assistant's answers is asked without these. `id` and `answer` are optional beside each.
"""

from typing import Any

from dflash_bench.errors import ConfigError
from dflash_bench.workloads.prompts import Item, Message
from dflash_bench.workloads.rows import Row
from dflash_bench.workloads.template import as_text, unicode_text

KEYS = ("text", "prompt", "messages", "turns", "conversations")
ROLES = {"system": "system", "user": "user", "assistant": "assistant"}
SHAREGPT_ROLES = {**ROLES, "human": "user", "gpt": "assistant"}


def item_from_row(row: Row, fallback_id: str) -> Item:
    """Return the item that a user's row asks for; ConfigError names the file, the line and the key."""
    key = _key_of(row)
    value = row.fields[key]
    text = _text(row.where, key, value) if key == "text" else None
    return Item(
        id=_optional(row, "id") or fallback_id,
        text=text,
        messages=None if key == "text" else _chat(row.where, key, value),
        answer=_optional(row, "answer"),
    )


def _key_of(row: Row) -> str:
    found = [key for key in KEYS if key in row.fields]
    if len(found) == 1:
        return found[0]
    what = (
        f"has both '{found[0]}' and '{found[1]}'" if found else "has no key that says what to ask"
    )
    raise ConfigError(f"{row.where}: {what}.", remedy=f"Write exactly one of: {', '.join(KEYS)}.")


def _optional(row: Row, key: str) -> str | None:
    value = row.fields.get(key)
    return None if value is None else as_text(row.where, key, value)


def _chat(where: str, key: str, value: Any) -> tuple[Message, ...]:
    if key == "prompt":
        return (user_message(_text(where, key, value)),)
    if not isinstance(value, list) or not value:
        raise ConfigError(f"{where}: '{key}' is not a list with entries.", remedy="Write [...].")
    if key == "turns":
        return (user_message(_text(where, "turns[0]", value[0])),)
    names = ("role", "content", ROLES) if key == "messages" else ("from", "value", SHAREGPT_ROLES)
    turns = [_turn(where, f"{key}[{n}]", turn, *names) for n, turn in enumerate(value)]
    return _up_to_the_question(where, key, turns)


def user_message(content: str) -> Message:
    """Return `content` as a user's message."""
    return {"role": "user", "content": content}


def _turn(
    where: str, key: str, turn: Any, speaker: str, content: str, roles: dict[str, str]
) -> Message:
    if not isinstance(turn, dict):
        raise ConfigError(
            f"{where}: '{key}' is not an object.", remedy=f"Give it {speaker!r} and {content!r}."
        )
    role = turn.get(speaker)
    if not isinstance(role, str) or role not in roles:
        raise ConfigError(
            f"{where}: '{key}.{speaker}' is {role!r}.", remedy=f"Write one of: {', '.join(roles)}."
        )
    # An assistant's turn may be empty, a question may not.
    text = turn.get(content)
    if roles[role] == "assistant" and text == "":
        return {"role": "assistant", "content": ""}
    return {"role": roles[role], "content": _text(where, f"{key}.{content}", text)}


def _up_to_the_question(where: str, key: str, turns: list[Message]) -> tuple[Message, ...]:
    """Drop the answers at the end; what is left must end with the user's turn."""
    while turns and turns[-1]["role"] == "assistant":
        turns = turns[:-1]
    if not turns or turns[-1]["role"] != "user":
        raise ConfigError(
            f"{where}: '{key}' has no user turn to answer.", remedy="End it with a user's turn."
        )
    return tuple(turns)


def _text(where: str, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{where}: '{key}' is not text.", remedy="Write it as a string.")
    if not value.strip():
        raise ConfigError(
            f"{where}: '{key}' is empty.", remedy="Write what is asked, or remove the row."
        )
    return unicode_text(where, key, value)
