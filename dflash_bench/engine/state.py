"""A sequence in flight: what was committed, and where its text ends."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from dflash_bench.engine.request import Request

Finish = Literal["eos", "length", "stop"]


@dataclass
class Slot:
    """One row of the batch.

    The newest output token, `pending`, is committed but not yet in the target's cache: the next
    block starts with it.
    """

    request: Request
    output: list[int] = field(default_factory=list)
    finished: Finish | None = None

    @property
    def pending(self) -> int:
        """The newest committed token: the anchor of the next block."""
        return self.output[-1]

    @property
    def length(self) -> int:
        """How many committed tokens the target's cache holds: all but the pending one.

        This is the whole rollback: the slots beyond it, of rejected drafts, are no longer seen.
        """
        return len(self.request.prompt) + max(0, len(self.output) - 1)

    def commit(self, burst: Sequence[int]) -> tuple[int, ...]:
        """Append new tokens, cut where the text ends; returns those that were kept."""
        kept, self.finished = cut(self.request, self.output, burst)
        self.output += kept
        return tuple(kept)


def cut(
    request: Request, output: Sequence[int], burst: Sequence[int]
) -> tuple[list[int], Finish | None]:
    """Cut a burst at the token limit, after an end-of-sequence token, and after a stop string.

    The text ends at the first of them, exactly where decoding one token at a time would end it.
    """
    room = request.max_new_tokens - len(output)
    kept = list(burst[:room])
    finish: Finish | None = "length" if len(kept) == room else None
    for index, token in enumerate(kept):
        if token in request.stop_ids:
            kept, finish = kept[: index + 1], "eos"
            break
    keep = request.find_stop([*output, *kept]) if request.find_stop else None
    if keep is not None:
        # What was committed before this burst held no stop, so at least one new token stays.
        kept, finish = kept[: max(1, keep - len(output))], "stop"
    return kept, finish
