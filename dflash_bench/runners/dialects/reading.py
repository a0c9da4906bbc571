"""An answer read without trust: whatever a server sent becomes a Reply, and what cannot be read is its error.

A dialect reads the shape that its server has; another version, a proxy or a fault may send another, and one such answer
must end its request and nothing else. Text may hold halves of surrogate pairs (JSON escapes each half by itself, and an
event may end between them), which no file can be written with: halves that meet are joined, others become U+FFFD.
"""

from collections.abc import Sequence
from dataclasses import replace

from dflash_bench.runners.dialects.base import Dialect, Event, Reply

UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)
"""What reading JSON of another shape than expected raises."""


def read_reply(dialect: Dialect, events: Sequence[Event]) -> Reply:
    """Return what `dialect` reads in `events`; an answer of another shape is a Reply with an error, a sentence."""
    try:
        reply = dialect.reply(events)
    except UNREADABLE as fault:
        return Reply(error=_sentence(dialect, f"{type(fault).__name__}: {fault}"))
    wrong = _misshapen(reply)
    if wrong is not None:
        return Reply(error=_sentence(dialect, wrong))
    return replace(
        reply,
        text=None if reply.text is None else writable(reply.text),
        error=None if reply.error is None else writable(reply.error),
    )


def writable(text: str) -> str:
    """Return `text` as UTF-8 can write it: halves of surrogate pairs joined, or replaced where the other is missing."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _misshapen(reply: Reply) -> str | None:
    """Say which number of a reply is none that a record can hold: JSON has any value in any place."""
    counts = {
        "output tokens": reply.output_tokens,
        "prompt tokens": reply.prompt_tokens,
        "cached tokens": reply.cached_tokens,
    }
    for name, count in counts.items():
        if count is not None and not _is_count(count):
            return f"{name} are {count!r}"
    if reply.ids is not None and not all(map(_is_count, reply.ids)):
        return "its token ids are no numbers from 0"
    if not all(_is_count(tokens) for _, tokens in reply.chunks):
        return "its counts of tokens go down"
    if reply.queue_s is not None and not isinstance(reply.queue_s, int | float):
        return f"its seconds in the queue are {reply.queue_s!r}"
    return None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _sentence(dialect: Dialect, wrong: str) -> str:
    return writable(f"the answer is not what a server of dialect {dialect.name} sends: {wrong}")
