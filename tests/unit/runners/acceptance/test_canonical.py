"""The arithmetic of the canonical record."""

import pytest

from dflash_bench.records.histogram import histogram_of
from dflash_bench.records.schema import Acceptance, Steps
from dflash_bench.runners.acceptance.canonical import (
    check,
    of_steps,
    per_position_of,
    pooled,
    settle,
    steps_of,
    tau,
)

STEPS = Steps(drafted=(3, 3, 0, 3), accepted=(3, 0, 0, 1), committed=(4, 1, 1, 2), cut=(0, 0, 0, 2))


def test_steps_sum_to_a_record_that_holds_every_identity() -> None:
    record = of_steps("here", STEPS)
    assert record == Acceptance(
        source="here",
        steps=4,
        plain_steps=1,
        drafted=9,
        accepted=6,
        overshoot=2,
        accepted_per_position=(2, 2, 2),
        histogram=(2, 0, 0, 2),
    )
    assert check(record, output_tokens=9) == []
    assert tau(record, 9) == 2.0


def test_a_method_that_always_drafts_dropped_what_is_missing_from_the_sum() -> None:
    record = settle("here", drafts=5, drafted=35, accepted=35, output_tokens=40, always_drafts=True)
    assert (record.steps, record.plain_steps, record.overshoot) == (5, 0, 1)
    assert check(record, 40) == []


def test_with_nothing_accepted_what_is_too_many_are_plain_passes() -> None:
    record = settle("here", drafts=2, drafted=4, accepted=0, output_tokens=10, always_drafts=False)
    assert (record.steps, record.plain_steps, record.overshoot) == (9, 7, 0)


def test_plain_passes_and_dropped_tokens_are_not_told_apart_by_one_sum() -> None:
    record = settle("here", drafts=2, drafted=4, accepted=3, output_tokens=10, always_drafts=False)
    assert (record.steps, record.plain_steps, record.overshoot) == (None, None, None)
    assert (record.drafted, record.accepted) == (4, 3)


@pytest.mark.parametrize(
    ("last_accepted", "expected"),
    [(0, (6, 4, 0)), (2, (None, None, None)), (None, (None, None, None))],
)
def test_a_last_pass_that_accepted_nothing_dropped_nothing(
    last_accepted: int | None, expected: tuple[int | None, ...]
) -> None:
    record = settle(
        "here",
        drafts=2,
        drafted=4,
        accepted=3,
        output_tokens=10,
        always_drafts=False,
        last_accepted=last_accepted,
    )
    assert (record.steps, record.plain_steps, record.overshoot) == expected


def test_histogram_and_positions_are_each_others_inverse() -> None:
    assert histogram_of((5, 3, 3), 8) == (3, 2, 0, 3)
    assert per_position_of((3, 2, 0, 3)) == (5, 3, 3)


def test_only_the_last_step_can_drop_tokens_and_keeps_one() -> None:
    steps = steps_of([3, 3], [1, 3], 3)
    assert steps is not None
    assert (steps.committed, steps.cut) == ((2, 1), (0, 3))
    assert steps_of([3, 3], [3, 1], 2) is None
    assert steps_of([], [], 1) is None


def test_a_sum_of_records_is_null_where_one_of_them_is() -> None:
    known = of_steps("a", STEPS)
    half = Acceptance(source="b", drafted=4, accepted=2)
    both = pooled("both", [known, known])
    assert both is not None
    assert both.steps == 8
    assert both.histogram == (4, 0, 0, 4)
    assert check(both, output_tokens=18, requests=2) == []
    mixed = pooled("mixed", [known, half])
    assert mixed is not None
    assert (mixed.steps, mixed.accepted, mixed.histogram) == (None, 8, None)
    assert pooled("none", []) is None


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({"steps": 5}, "output tokens - requests = steps + accepted - overshoot (9 - 1 against 9)"),
        ({"overshoot": None, "drafted": 5}, "accepted <= drafted (accepted 6, drafted 5)"),
        ({"plain_steps": 7}, "plain_steps <= steps (plain_steps 7, steps 4)"),
        ({"overshoot": -1}, "overshoot is -1"),
        ({"accepted_per_position": (2, 3, 1)}, "accepted_per_position increases: [2, 3, 1]"),
        ({"accepted_per_position": (2, 1, 1)}, "accepted_per_position sums to 4, accepted is 6"),
        ({"histogram": (1, 0, 0, 2)}, "the histogram holds 3 steps of 4"),
        ({"histogram": (2, 1, 0, 1)}, "the histogram holds 4 accepted drafts of 6"),
        ({"histogram": (3, -1, 0, 2)}, "the histogram holds a negative count: [3, -1, 0, 2]"),
        ({"plain_steps": 3}, "2 steps accepted a first draft, and 1 had one"),
    ],
)
def test_a_broken_identity_is_a_sentence_with_its_numbers(
    change: dict[str, object], broken: str
) -> None:
    record = of_steps("here", STEPS).model_copy(update=change)
    assert any(broken in sentence for sentence in check(record, 9)), check(record, 9)


def test_what_is_not_told_breaks_nothing() -> None:
    assert check(Acceptance(source="here"), 9) == []
    assert tau(Acceptance(source="here"), 9) is None
