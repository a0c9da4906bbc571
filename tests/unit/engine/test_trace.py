"""Shares, windows and totals, on scripted events with exact times and on the real loop."""

from dataclasses import replace

import pytest

from dflash_bench.engine.clock import Clock, Timed, TimedDrafter, TimedTarget, Times, measured
from dflash_bench.engine.loop import Admitted, RowStep, Step, generate
from dflash_bench.engine.request import Request
from dflash_bench.engine.state import Finish
from dflash_bench.engine.trace import Ledger, Window, trace
from tests.unit.engine.tiny import GREEDY, build_dflash, build_requests, build_target


def request(name: str) -> Request:
    return Request(name, (1, 2, 3), 10, frozenset(), key=0)


def admitted(name: str, active: int, wall: float, finished: Finish | None = None) -> Timed:
    times = Times(wall, wall / 2, prefill_s=wall / 2, draft_prefill_s=wall / 4)
    return Timed(Admitted(name, 7, finished, active), times)


def row(name: str, committed: int, finished: Finish | None = None, cut: int = 0) -> RowStep:
    return RowStep(name, 4, 3, 3, committed - 1, tuple(range(committed)), cut, finished)


def step(wall: float, *rows: RowStep) -> Timed:
    return Timed(Step(rows), Times(wall, wall / 2, draft_s=wall / 4, verify_s=wall / 2))


# Two slots, three requests: a and b fill the slots, c takes a's place, then b leaves for good.
SCRIPT = [
    admitted("a", 1, 8.0),  # one slot is still empty: outside the window
    admitted("b", 2, 4.0),
    step(2.0, row("a", 3), row("b", 1)),
    step(6.0, row("a", 2, "eos", cut=2), row("b", 4)),
    admitted("c", 2, 12.0),
    step(10.0, row("c", 1), row("b", 2, "length")),  # the last event of the window
    step(16.0, row("c", 4, "stop")),
]
REQUESTS = [request(name) for name in "abc"]


def test_the_window_is_when_all_slots_are_busy() -> None:
    window = Window(num_requests=3, batch_size=2)
    covered = [window.covers(each.event) for each in SCRIPT]
    assert covered == [False, True, True, True, True, True, False]


def test_a_request_is_given_the_moment_it_ends() -> None:
    ledger = Ledger(REQUESTS, batch_size=2)
    ended = [[each.id for each in ledger.take(timed)] for timed in SCRIPT]
    assert ended == [[], [], [], ["a"], [], ["b"], ["c"]]


def test_window_shares_are_exact() -> None:
    traces, visit = trace(SCRIPT, REQUESTS, batch_size=2)
    a, b, c = (each.window for each in traces)
    assert (a.wall_s, b.wall_s, c.wall_s) == (4.0, 4.0 + 4.0 + 5.0, 12.0 + 5.0)
    assert (a.tokens, b.tokens, c.tokens) == (5, 1 + 7, 1 + 1)  # a's prefill fell outside
    assert (a.steps, b.steps, c.steps) == (2, 3, 1)
    assert (a.drafted, a.accepted) == (6, 3)
    assert (b.prefill_s, b.draft_prefill_s, b.draft_s, b.verify_s) == (2.0, 1.0, 2.25, 4.5)
    assert (b.commit_s, b.other_s, b.cpu_s) == (0.0, 1.0 + 2.25, 6.5)
    assert (visit.window_wall_s, visit.window_cpu_s) == (34.0, 17.0)
    assert (visit.window_steps, visit.window_row_steps) == (3, 6)
    assert (visit.wall_s, visit.cpu_s, visit.steps, visit.row_steps) == (58.0, 29.0, 4, 7)
    assert visit.occupancy == 1.0


def test_request_times_run_from_the_slot_that_was_entered() -> None:
    a, b, c = trace(SCRIPT, REQUESTS, batch_size=2)[0]
    assert (a.ttft_s, b.ttft_s, c.ttft_s) == (6.0, 3.0, 9.0)  # without the drafter's prefill
    assert (a.draft_prefill_s, b.draft_prefill_s, c.draft_prefill_s) == (2.0, 1.0, 3.0)
    assert (a.e2e_s, b.e2e_s, c.e2e_s) == (20.0, 34.0, 38.0)


def test_steps_are_kept_one_by_one() -> None:
    a = trace(SCRIPT, REQUESTS, batch_size=2)[0][0]
    assert (a.id, a.prompt_tokens, a.finish_reason) == ("a", 3, "eos")
    assert a.output == [7, 0, 1, 2, 0, 1]
    assert (a.drafted, a.accepted, a.committed, a.cut) == ([3, 3], [2, 1], [3, 2], [0, 2])


def test_refilling_two_slots_one_after_the_other_lowers_the_occupancy() -> None:
    script = [
        admitted("a", 1, 1.0),
        admitted("b", 2, 1.0),
        step(1.0, row("a", 1, "eos"), row("b", 1, "eos")),
        admitted("c", 1, 1.0),
        admitted("d", 2, 1.0),
        step(1.0, row("c", 1, "eos"), row("d", 1)),
        step(1.0, row("d", 1, "eos")),
    ]
    visit = trace(script, [request(name) for name in "abcd"], batch_size=2)[1]
    assert visit.window_wall_s == 5.0
    assert visit.occupancy == pytest.approx((2 + 2 + 1 + 2 + 2) / (2 * 5))


def test_with_fewer_requests_than_slots_the_last_prefill_opens_the_window() -> None:
    script = [
        admitted("a", 1, 1.0),
        admitted("b", 2, 1.0),
        step(3.0, row("a", 1, "eos"), row("b", 1)),
        step(1.0, row("b", 1, "eos")),
    ]
    traces, visit = trace(script, [request("a"), request("b")], batch_size=4)
    assert [each.window.wall_s for each in traces] == [1.5, 2.5]
    assert (visit.window_wall_s, visit.occupancy) == (4.0, 0.5)


def test_a_visit_whose_requests_all_end_at_once_has_its_last_prefill_as_window() -> None:
    script = [admitted("a", 1, 1.0, "length"), admitted("b", 1, 2.0, "length")]
    traces, visit = trace(script, [request("a"), request("b")], batch_size=4)
    assert [each.window.wall_s for each in traces] == [0.0, 2.0]
    assert visit.window_wall_s == 2.0


def test_no_events_have_no_window() -> None:
    assert trace([], [], batch_size=2)[1].occupancy is None


@pytest.mark.parametrize("batch_size", [1, 2, 3, 8])
def test_shares_sum_to_the_window_and_tokens_balance(batch_size: int) -> None:
    target, clock = build_target(), Clock()
    asked = [replace(r, stop_ids=frozenset({1, 2})) for r in build_requests(6, max_new_tokens=9)]
    drafter = TimedDrafter(build_dflash(target), clock)
    events = generate(
        TimedTarget(target, clock), drafter, asked, batch_size=batch_size, sampling=GREEDY
    )
    traces, visit = trace(measured(events, clock), asked, batch_size)
    shares = [each.window for each in traces]
    assert sum(share.wall_s for share in shares) == pytest.approx(visit.window_wall_s, abs=1e-9)
    assert sum(share.cpu_s for share in shares) == pytest.approx(visit.window_cpu_s, abs=1e-9)
    assert sum(share.steps for share in shares) == visit.window_row_steps
    for each in traces:
        assert len(each.output) - 1 == sum(each.committed)
        assert [n - 1 for n in each.committed] == each.accepted
    if batch_size == 1:
        assert visit.window_wall_s == visit.wall_s
        assert sum(share.tokens for share in shares) == sum(len(e.output) for e in traces)
