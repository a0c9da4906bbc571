"""From timed events to what each request took: its tokens, its steps, and its share of the time.

In a batch no request has time of its own. Its *share* is the wall time of each step divided equally
among the active rows; a prefill belongs to its request alone. The *window* is the time in which all
slots are busy: from the start of the prefill that fills the last slot to the end of the event after
which a slot is empty with nothing left to refill it. Shares are taken inside the window and sum to
its wall time; throughput and speedup are computed from them. Events are taken one by one, so that a
request can be written down the moment it ends.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from dflash_bench.engine.clock import Timed, Times
from dflash_bench.engine.loop import Admitted, Event, RowStep
from dflash_bench.engine.request import Request
from dflash_bench.engine.state import Finish

_PHASES = ("prefill_s", "draft_prefill_s", "draft_s", "verify_s", "commit_s", "other_s")


@dataclass
class Phases:
    """Wall seconds by what they were spent on: the prefill is the target's, all others are decoding."""

    prefill_s: float = 0.0
    draft_prefill_s: float = 0.0
    draft_s: float = 0.0
    verify_s: float = 0.0
    commit_s: float = 0.0
    other_s: float = 0.0

    @property
    def wall_s(self) -> float:
        """All phases together."""
        return float(sum(getattr(self, name) for name in _PHASES))

    def add(self, times: Times, rows: int = 1) -> None:
        """Count an event's time, divided among `rows`."""
        for name in _PHASES:
            setattr(self, name, getattr(self, name) + getattr(times, name) / rows)


@dataclass
class Share(Phases):
    """A request's part of the window; `tokens` has the prefill's too if that fell inside."""

    tokens: int = 0
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    cpu_s: float = 0.0

    def add_prefill(self, times: Times) -> None:
        """Count a prefill and its one token."""
        self.tokens += 1
        self.add(times)

    def add_step(self, row: RowStep, times: Times, rows: int) -> None:
        """Count one step, shared by `rows` active rows."""
        self.tokens += len(row.tokens)
        self.steps += 1
        self.drafted += row.drafted
        self.accepted += row.accepted
        self.add(times, rows)

    def add(self, times: Times, rows: int = 1) -> None:
        """Count an event's time, process CPU time as well, divided among `rows`."""
        super().add(times, rows)
        self.cpu_s += times.cpu_s / rows


@dataclass
class RequestTrace:
    """One answered request.

    ttft_s           slot entered -> first token usable
    e2e_s            slot entered -> last token, with its neighbours' prefills in between
    draft_prefill_s  the drafter's ingestion of the prompt: in e2e_s, not in ttft_s
    drafted, accepted, committed, cut   tokens of each step; the prefill's token is in none
    depth   of each step's draft: the most drafts on a path, of a chain all of them
    scheduled, busy  tokens of this request in each step's pass, and the slots in use in it
    """

    id: str
    prompt_tokens: int
    output: list[int] = field(default_factory=list)
    finish_reason: Finish | None = None
    ttft_s: float = 0.0
    e2e_s: float = 0.0
    draft_prefill_s: float = 0.0
    drafted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    scheduled: list[int] = field(default_factory=list)
    busy: list[int] = field(default_factory=list)
    window: Share = field(default_factory=Share)

    def add_prefill(self, event: Admitted, times: Times) -> None:
        """Take in the admission of this request."""
        self.output.append(event.first_token)
        self.finish_reason = event.finished
        self.ttft_s = times.wall_s - times.draft_prefill_s
        self.draft_prefill_s = times.draft_prefill_s

    def add_step(self, row: RowStep, busy: int) -> None:
        """Take in one step of this request, in which `busy` slots were in use."""
        self.output += row.tokens
        self.finish_reason = row.finished
        self.drafted.append(row.drafted)
        self.accepted.append(row.accepted)
        self.committed.append(len(row.tokens))
        self.cut.append(row.cut)
        self.scheduled.append(row.scheduled)
        self.busy.append(busy)
        self.depth.append(row.depth)


@dataclass(frozen=True)
class VisitTrace:
    """All requests together.

    A step is one pass of the target, a row-step one row in one step. `occupancy` is the mean of
    active rows / batch_size over the window's time; None if the window is empty. `window_phases` are
    the parts of `window_wall_s`.
    """

    wall_s: float
    cpu_s: float
    steps: int
    row_steps: int
    window_wall_s: float
    window_cpu_s: float
    window_steps: int
    window_row_steps: int
    occupancy: float | None
    window_phases: Phases


class Window:
    """Tells, event by event, whether all slots that can be busy are busy.

    With fewer requests than slots the last prefill opens the window, and the first request that ends
    closes it.
    """

    def __init__(self, num_requests: int, batch_size: int) -> None:
        self._capacity = min(batch_size, num_requests)
        self._waiting, self._busy = num_requests, 0
        self._open = self._closed = False

    def covers(self, event: Event) -> bool:
        """Take the next event; tell whether its time belongs to the window."""
        if isinstance(event, Admitted):
            self._waiting, self._busy = self._waiting - 1, self._busy + 1
            self._open |= self._busy == self._capacity or self._waiting == 0
            self._busy -= event.finished is not None
        else:
            self._busy -= sum(row.finished is not None for row in event.rows)
        covered = self._open and not self._closed
        # The event after which a slot stays empty is the window's last.
        self._closed |= self._open and self._busy + self._waiting < self._capacity
        return covered


class Ledger:
    """Folds the timed events of one visit into its requests, as they end, and their total."""

    def __init__(self, requests: Sequence[Request], batch_size: int) -> None:
        self._batch_size = batch_size
        self._window = Window(len(requests), batch_size)
        self._prompt_tokens = {each.id: len(each.prompt) for each in requests}
        self._active: dict[str, RequestTrace] = {}
        self._entered: dict[str, float] = {}
        self._now = self._busy_s = 0.0
        self._phases = Phases()
        self._total = VisitTrace(0.0, 0.0, 0, 0, 0.0, 0.0, 0, 0, None, self._phases)

    def take(self, timed: Timed) -> Iterator[RequestTrace]:
        """Take the next event, and yield the requests that it ended."""
        event, times = timed.event, timed.times
        began, self._now = self._now, self._now + times.wall_s
        covered = self._window.covers(event)
        if isinstance(event, Admitted):
            self._admit(event, times, began, covered)
            self._add(times, rows=0, active=event.active, covered=covered)
            ended = [event.request_id] if event.finished else []
        else:
            self._step(event.rows, times, covered)
            self._add(times, len(event.rows), len(event.rows), covered)
            ended = [row.request_id for row in event.rows if row.finished]
        for name in ended:
            yield self._active.pop(name)

    def total(self) -> VisitTrace:
        """Return the totals of the events taken so far."""
        slot_s = self._total.window_wall_s * self._batch_size
        return replace(
            self._total,
            occupancy=self._busy_s / slot_s if slot_s > 0 else None,
            window_phases=replace(self._phases),
        )

    def _admit(self, event: Admitted, times: Times, began: float, covered: bool) -> None:
        name = event.request_id
        request = RequestTrace(name, self._prompt_tokens[name])
        self._active[name], self._entered[name] = request, began
        request.add_prefill(event, times)
        request.e2e_s = times.wall_s
        if covered:
            request.window.add_prefill(times)

    def _step(self, rows: Sequence[RowStep], times: Times, covered: bool) -> None:
        for row in rows:
            request = self._active[row.request_id]
            request.add_step(row, busy=len(rows))
            request.e2e_s = self._now - self._entered[row.request_id]
            if covered:
                request.window.add_step(row, times, len(rows))

    def _add(self, times: Times, rows: int, active: int, covered: bool) -> None:
        """Add an event of `rows` row-steps, in which `active` slots were in use, to the total."""
        total = self._total
        inside = int(covered)
        self._busy_s += times.wall_s * active * inside
        if covered:
            self._phases.add(times)
        self._total = VisitTrace(
            wall_s=total.wall_s + times.wall_s,
            cpu_s=total.cpu_s + times.cpu_s,
            steps=total.steps + (rows > 0),
            row_steps=total.row_steps + rows,
            window_wall_s=total.window_wall_s + times.wall_s * inside,
            window_cpu_s=total.window_cpu_s + times.cpu_s * inside,
            window_steps=total.window_steps + (rows > 0) * inside,
            window_row_steps=total.window_row_steps + rows * inside,
            occupancy=None,
            window_phases=self._phases,
        )


def trace(
    timed: Iterable[Timed], requests: Sequence[Request], batch_size: int
) -> tuple[list[RequestTrace], VisitTrace]:
    """Fold all events of one visit at once: its requests, in the order asked, and their total."""
    ledger = Ledger(requests, batch_size)
    ended = {trace.id: trace for each in timed for trace in ledger.take(each)}
    return [ended[each.id] for each in requests if each.id in ended], ledger.total()
