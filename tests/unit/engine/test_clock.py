"""The clock: it adds up what the verbs took, and the loop gives the same events under it."""

from collections.abc import Iterator

import pytest

from dflash_bench.engine.clock import Clock, TimedDrafter, TimedTarget, Times, measured
from dflash_bench.engine.loop import Admitted, Event, Step, generate
from dflash_bench.errors import ConfigError
from tests.unit.engine.tiny import GREEDY, build_dflash, build_requests, build_target


class Hands:
    """A clock's hands, moved by the test."""

    def __init__(self) -> None:
        self.wall, self.cpu = 100.0, 50.0

    def pass_(self, wall: float) -> None:
        self.wall += wall
        self.cpu += wall / 2


def test_phases_are_summed_and_the_rest_is_other() -> None:
    hands = Hands()
    clock = Clock("cpu", lambda: hands.wall, lambda: hands.cpu)
    for seconds in (2.0, 3.0):
        with clock.phase("verify_s"):
            hands.pass_(seconds)
    hands.pass_(1.0)
    times = clock.read()
    assert times == Times(wall_s=6.0, cpu_s=3.0, verify_s=5.0)
    assert times.other_s == 1.0


def test_what_the_caller_does_between_events_is_not_counted() -> None:
    hands = Hands()
    clock = Clock("cpu", lambda: hands.wall, lambda: hands.cpu)

    def events() -> Iterator[Event]:
        for seconds in (1.0, 2.0):
            with clock.phase("prefill_s"):
                hands.pass_(seconds)
            yield Admitted("r", 0, None, 1)

    walls = []
    for timed in measured(events(), clock):
        walls.append((timed.times.wall_s, timed.times.prefill_s))
        hands.pass_(40.0)
    assert walls == [(1.0, 1.0), (2.0, 2.0)]


def test_timing_changes_no_event_and_every_verb_is_timed() -> None:
    target, requests = build_target(), build_requests(3, max_new_tokens=6)
    drafter, clock = build_dflash(target), Clock()
    plain = list(generate(target, drafter, requests, batch_size=2, sampling=GREEDY))
    timed = list(
        measured(
            generate(
                TimedTarget(target, clock),
                TimedDrafter(drafter, clock),
                requests,
                batch_size=2,
                sampling=GREEDY,
            ),
            clock,
        )
    )
    assert [each.event for each in timed] == plain
    for each in timed:
        spent = each.times
        if isinstance(each.event, Step):
            assert min(spent.draft_s, spent.verify_s, spent.commit_s) > 0.0
            assert spent.prefill_s == spent.draft_prefill_s == 0.0
        else:
            assert min(spent.prefill_s, spent.draft_prefill_s) > 0.0
            assert spent.draft_s == spent.verify_s == spent.commit_s == 0.0
        assert spent.other_s > 0.0


def test_a_device_without_a_clock_is_refused() -> None:
    with pytest.raises(ConfigError, match="device mps cannot be timed"):
        Clock("mps")
