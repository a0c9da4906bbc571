"""One prompt and what ends its answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

FindStop = Callable[[Sequence[int]], int | None]
"""Output tokens so far -> how many to keep if a stop string ends among them, or None to go on."""


@dataclass(frozen=True)
class Request:
    """What the loop needs to know of a request.

    `key` is the counter of the request's random noise: the same request has the same key in every
    arm, so that sampled texts can be compared token for token. `stop_ids` (end-of-sequence tokens)
    are themselves output tokens, as is the token that completes a stop string.
    """

    id: str
    prompt: tuple[int, ...]
    max_new_tokens: int
    stop_ids: frozenset[int]
    key: int
    find_stop: FindStop | None = None
