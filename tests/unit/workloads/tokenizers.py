"""Two tokenizers small enough to reason about: one of bytes, one of words whose tokens merge across seams."""

import re
from collections.abc import Sequence

from dflash_bench.workloads.prompts import Message


class ByteTokenizer:
    """One token per UTF-8 byte, so that a cut can fall inside a character."""

    has_chat_template = True

    def render(self, messages: Sequence[Message]) -> str:
        return "".join(f"<{m['role']}>{m['content']}" for m in messages) + "<assistant>"

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8"))

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode("utf-8", errors="replace")


class WordTokenizer(ByteTokenizer):
    """One token per run of word characters or of anything else: a seam between two words loses a token."""

    def __init__(self) -> None:
        self.vocabulary: list[str] = []

    def encode(self, text: str) -> list[int]:
        pieces = re.findall(r"\w+|\W+", text)
        for piece in pieces:
            if piece not in self.vocabulary:
                self.vocabulary.append(piece)
        return [self.vocabulary.index(piece) for piece in pieces]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.vocabulary[number] for number in ids)
