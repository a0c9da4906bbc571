"""From a row to a prompt: an `Item` is what somebody wrote, a `Prompt` is what the target reads.

The tokenizer belongs to the target, so a runner supplies it; here is only text and token ids.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict


class Message(TypedDict):
    """One turn of a chat; `role` is `system`, `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True)
class Item:
    """One row before rendering: either `text`, sent as it is, or `messages`, a chat; never both."""

    id: str
    text: str | None
    messages: tuple[Message, ...] | None
    answer: str | None = None


@dataclass(frozen=True)
class Prompt:
    """What is sent: the rendered text and its token ids."""

    id: str
    text: str
    ids: tuple[int, ...]
    sha256: str
    answer: str | None = None


class Tokenizer(Protocol):
    """The target's tokenizer, as far as prompts need it."""

    @property
    def has_chat_template(self) -> bool:
        """Whether `render` follows the model's own chat template, or joins the messages plainly."""

    def render(self, messages: Sequence[Message]) -> str:
        """Return the chat as text that ends where the assistant's answer begins."""

    def encode(self, text: str) -> list[int]:
        """Return the token ids of `text`, with no special tokens but those that it spells out."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`, special tokens included."""


def hash_ids(ids: Sequence[int]) -> str:
    """Return the hex SHA-256 of the ids, in decimal with commas between: `sha256(b"1,2,3")`."""
    return hashlib.sha256(",".join(map(str, ids)).encode("ascii")).hexdigest()


def make_prompt(item: Item, text: str, ids: Sequence[int]) -> Prompt:
    """Return the prompt that `item` became: its rendered `text` with the token `ids` of it."""
    return Prompt(
        id=item.id,
        text=text,
        ids=tuple(ids),
        sha256=hash_ids(ids),
        answer=item.answer,
    )
