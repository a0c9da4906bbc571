"""Where a text ends, and what of a burst is kept."""

from collections.abc import Sequence

import pytest

from dflash_bench.engine.request import Request
from dflash_bench.engine.state import Slot, cut

EOS = 9


def request(max_new_tokens: int = 10, stop: Sequence[int] = ()) -> Request:
    """Return a request whose stop "string" is the token sequence `stop`."""

    def find_stop(output: Sequence[int]) -> int | None:
        for end in range(len(stop), len(output) + 1):
            if list(output[end - len(stop) : end]) == list(stop):
                return end
        return None

    return Request("r", (1, 2), max_new_tokens, frozenset({EOS}), 0, find_stop if stop else None)


@pytest.mark.parametrize(
    ("burst", "kept", "finish"),
    [
        ([3, 4, 5], [3, 4, 5], None),
        ([3, EOS, 5], [3, EOS], "eos"),
        ([EOS, EOS], [EOS], "eos"),
        ([3] * 10, [3] * 8, "length"),
        ([3] * 7 + [EOS, 3], [3] * 7 + [EOS], "eos"),
    ],
)
def test_a_burst_ends_with_its_text(burst: list[int], kept: list[int], finish: str | None) -> None:
    assert cut(request(), [1, 1], burst) == (kept, finish)


def test_a_stop_string_may_begin_in_an_earlier_burst() -> None:
    assert cut(request(stop=(7, 8)), [1, 7], [8, 3, 3]) == ([8], "stop")


def test_the_earliest_end_wins() -> None:
    assert cut(request(stop=(7, 8)), [1], [7, 8, EOS, 3]) == ([7, 8], "stop")
    assert cut(request(stop=(7, 8)), [1], [EOS, 7, 8]) == ([EOS], "eos")
    assert cut(request(3, stop=(7, 8)), [1], [5, 7, 8]) == ([5, 7], "length")


def test_a_burst_ends_where_one_token_at_a_time_would_have_ended() -> None:
    text = [3, 7, 4, 7, 8, 5, EOS, 6, 6, 6]
    for max_new_tokens in range(1, 11):
        for stop in ((), (7, 8), (8, 5), (5,)):
            slot = Slot(request(max_new_tokens, stop))
            for token in text:
                slot.commit([token])
                if slot.finished:
                    break
            whole = Slot(request(max_new_tokens, stop))
            whole.commit(text)
            assert (whole.output, whole.finished) == (slot.output, slot.finished)


def test_the_cache_holds_all_but_the_pending_token() -> None:
    slot = Slot(request())
    assert slot.length == 2
    slot.commit([3])
    assert (slot.length, slot.pending) == (2, 3)
    slot.commit([4, 5])
    assert (slot.length, slot.pending) == (4, 5)
