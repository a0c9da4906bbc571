"""From exchanges to records: what each request took of the time in which all slots were busy.

Closed loop. A slot's requests tile its time: each lasts from the end of the one before. The *window* runs from the
sending of the request that fills the last slot to the first moment when a slot finds nothing left to send; a request's
share is its time in its slot, inside the window, divided by the slots. So shares sum to the window's wall. Tokens count
in the window if their chunk arrived there; steps if the last token that they committed did. Where a server does not say
which chunk held how many tokens, its tokens are spread evenly over the time from the first to the last.

Open loop. Slots are not meant to be busy, so there is no window: a request's share is all its time since it was due.

A share is split at the first token: `prefill_s` before it (waiting inside the server included), `decode_s` after it. An
answer that was no stream shows no first token: all its time is in `decode_s`, and `prefill_s` is null.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING

from dflash_bench.records.schema import Acceptance, Answer, Chunks, Phases, Share, Steps, Totals
from dflash_bench.runners.base import Load, Request

if TYPE_CHECKING:
    from dflash_bench.runners.client.exchange import Exchange
    from dflash_bench.runners.dialects.base import Reply


@dataclass(frozen=True)
class Window:
    """The time from `start_s` to `end_s` in which `slots` slots are busy; `left` ends until one stays empty."""

    start_s: float
    end_s: float
    slots: int
    left: int

    @classmethod
    def opened(cls, full_s: float, num_requests: int, batch_size: int) -> "Window":
        """Return the window that the sending of the request at `full_s` opens; its end is not known yet."""
        slots = min(batch_size, num_requests)
        return cls(full_s, inf, slots, num_requests - slots + 1)

    def after(self, ended_s: float) -> "Window":
        """Return the window after one more request ended: closed, if nothing was left for its slot."""
        left = self.left - 1
        return replace(
            self, left=left, end_s=max(ended_s, self.start_s) if left == 0 else self.end_s
        )

    def overlap(self, begin_s: float, end_s: float) -> float:
        """Return the seconds between `begin_s` and `end_s` that lie inside."""
        return max(0.0, min(end_s, self.end_s) - max(begin_s, self.start_s))


ALWAYS = Window(-inf, inf, slots=1, left=0)
"""The window of an open loop: every request counts whole."""


class Shares:
    """The visit so far: takes exchanges in the order of their ends, and keeps what its totals need.

    `drafts` is false for plain decoding, in which every pass of the target gives one token.
    """

    def __init__(self, full_s: float, num_requests: int, load: Load, drafts: bool) -> None:
        self._load, self._drafts = load, drafts
        self._is_open = load.request_rate is not None
        self._window = Window.opened(full_s, num_requests, load.batch_size)
        self._began_s, self._ended_s = inf, -inf
        self._busy_s = 0.0
        self._phases: list[Phases | None] = []
        self._steps: list[int | None] = []

    def take(
        self, request: Request, exchange: "Exchange", reply: "Reply", text: str | None
    ) -> Answer:
        """Return the answer to `request` that `exchange` brought, and `reply` read; `text` is its output's."""
        self._began_s = min(self._began_s, exchange.slot_s)
        self._ended_s = max(self._ended_s, exchange.ended_s)
        if not self._is_open:
            self._window = self._window.after(exchange.ended_s)
        window = ALWAYS if self._is_open else self._window
        self._busy_s += window.overlap(exchange.sent_s, exchange.ended_s)
        error = exchange.error or reply.error or misread(request, reply)
        if error is not None:
            self._phases.append(None)
            self._steps.append(None)
            return Answer(request=request.id, error=error, prompt_tokens_told=reply.prompt_tokens)
        answer = answer_of(request, exchange, reply, window, self._drafts)
        self._phases.append(answer.window)
        self._steps.append(_num_steps(answer))
        return answer.model_copy(
            update={
                "output_text": text,
                "client_queue_s": exchange.sent_s - exchange.slot_s if self._is_open else None,
            }
        )

    def totals(self) -> Totals:
        """Return what the finished visit took as a whole."""
        wall_s = max(0.0, self._ended_s - self._began_s)
        window = self._window
        window_s = None if self._is_open else max(0.0, window.end_s - window.start_s)
        slot_s = (wall_s if window_s is None else window_s) * self._load.batch_size
        known = [each for each in self._phases if each is not None]
        whole = len(known) == len(self._phases) and not self._is_open
        return Totals(
            wall_s=wall_s,
            window_wall_s=window_s,
            # A failed request took its part of the window with it.
            window_phases=_summed(known) if whole else None,
            occupancy=self._busy_s / slot_s if slot_s > 0 else None,
            row_steps=_sum_or_none(self._steps),
        )


def misread(request: Request, reply: "Reply") -> str | None:
    """Say what makes an answer unusable though it came: another prompt was read, or its length is not told."""
    told, sent = reply.prompt_tokens, len(request.prompt)
    if told is not None and told != sent:
        return (
            f"the server read {told} tokens where the prompt has {sent}: it puts tokens of its own around the prompt"
            " (BOS, a chat template), cuts it, or has another tokenizer"
        )
    if reply.output_tokens is None:
        return "the server does not say how many tokens it generated (no `usage`, no ids)"
    return None


def answer_of(
    request: Request, exchange: "Exchange", reply: "Reply", window: Window, drafts: bool
) -> Answer:
    """Return the record of a request that did not fail. Times are seconds since it was sent."""
    num_tokens = reply.output_tokens
    assert num_tokens is not None, "misread() saw to that"
    steps = reply.steps if drafts else reply.steps or plain_steps(num_tokens)
    first_s, last_s = first_token_s(reply), last_token_s(reply)
    chunks = reply.chunks
    return Answer(
        request=request.id,
        output_ids=reply.ids,
        output_tokens=num_tokens,
        finish_reason=reply.finish_reason,
        ttft_s=None if first_s is None else first_s - exchange.sent_s,
        e2e_s=(exchange.ended_s if last_s is None else last_s) - exchange.sent_s,
        prompt_tokens_told=reply.prompt_tokens,
        cached_tokens=reply.cached_tokens,
        chunks=Chunks(
            at_s=tuple(at_s - exchange.sent_s for at_s, _ in chunks),
            tokens=tuple(count for _, count in chunks),
        )
        if chunks
        else None,
        steps=steps,
        acceptance=reply.acceptance,
        window=share_of(exchange, reply, steps, window),
    )


def share_of(exchange: "Exchange", reply: "Reply", steps: Steps | None, window: Window) -> Share:
    """Return the part of `window` that one request had."""
    first_s = first_token_s(reply)
    split_s = exchange.slot_s if first_s is None else first_s
    before, inside = tokens_in(exchange, reply, window)
    # The first token is the prefill's; all others were committed by steps.
    decoded = inside - (before == 0 and inside > 0)
    num_steps, num_drafted = steps_in(reply, steps, before, inside, decoded)
    return Share(
        prefill_s=None
        if first_s is None
        else window.overlap(exchange.slot_s, first_s) / window.slots,
        decode_s=window.overlap(split_s, exchange.ended_s) / window.slots,
        tokens=inside,
        decode_tokens=decoded,
        steps=num_steps,
        drafted=num_drafted,
        accepted=None if num_steps is None else decoded - num_steps,
    )


def tokens_in(exchange: "Exchange", reply: "Reply", window: Window) -> tuple[int, int]:
    """Return how many of the output's tokens came before `window`, and how many inside it."""
    total = reply.output_tokens or 0
    if reply.chunks:
        before = sum(count for at_s, count in reply.chunks if at_s < window.start_s)
        until = sum(count for at_s, count in reply.chunks if at_s <= window.end_s)
        return before, until - before
    first_s, last_s = first_token_s(reply), last_token_s(reply)
    begin_s = exchange.sent_s if first_s is None else first_s
    end_s = exchange.ended_s if last_s is None else last_s
    return _spread(total, begin_s, end_s, window)


def steps_in(
    reply: "Reply", steps: Steps | None, before: int, inside: int, decoded: int
) -> tuple[int | None, int | None]:
    """Return the steps, and the drafts that they verified, whose last token is one of the `inside` after `before`.

    Where the steps of a request are told as a sum only, they are spread evenly over its decoded tokens.
    """
    if steps is not None:
        ends = list(accumulate(steps.committed, initial=1))[1:]
        low, high = bisect_right(ends, before), bisect_right(ends, before + inside)
        return high - low, sum(steps.drafted[low:high])
    told: Acceptance | None = reply.acceptance
    if told is None or told.steps is None:
        return None, None
    part = decoded / max(1, (reply.output_tokens or 0) - 1)
    return round(told.steps * part), None if told.drafted is None else round(told.drafted * part)


def plain_steps(num_tokens: int) -> Steps:
    """Return the steps of plain decoding: after the prefill's token, one pass of the target for each."""
    passes = max(0, num_tokens - 1)
    none = (0,) * passes
    return Steps(drafted=none, accepted=none, committed=(1,) * passes, cut=none)


def first_token_s(reply: "Reply") -> float | None:
    """Return when the first token arrived; None if the answer was no stream."""
    return reply.chunks[0][0] if reply.chunks else reply.first_s


def last_token_s(reply: "Reply") -> float | None:
    """Return when the last token arrived; None if the answer was no stream."""
    return reply.chunks[-1][0] if reply.chunks else reply.last_s


def _spread(total: int, begin_s: float, end_s: float, window: Window) -> tuple[int, int]:
    """Return (before, inside) for `total` tokens at even distances from `begin_s` to `end_s`."""
    gap_s = (end_s - begin_s) / max(1, total - 1)
    times = [begin_s + gap_s * index for index in range(total - 1)] + [end_s] * (total > 0)
    before = bisect_left(times, window.start_s)
    return before, bisect_right(times, window.end_s) - before


def _num_steps(answer: Answer) -> int | None:
    if answer.steps is not None:
        return len(answer.steps.committed)
    return None if answer.acceptance is None else answer.acceptance.steps


def _sum_or_none(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _summed(shares: Sequence[Phases]) -> Phases:
    """Return the sum of each phase; null where a share lacks it."""

    def total(name: str) -> float | None:
        values = [getattr(share, name) for share in shares]
        return None if None in values else sum(values)

    return Phases(prefill_s=total("prefill_s"), decode_s=total("decode_s"))
