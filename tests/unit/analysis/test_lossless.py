"""Equality of outputs is counted; nobody guesses why two texts differ."""

from typing import Any

import pytest

from dflash_bench.analysis.frames import read_tables
from dflash_bench.analysis.lossless import Promise, compare, control, promise
from dflash_bench.plan import Cell, PlannedArm
from dflash_bench.spec import Rule
from tests.unit.analysis.recording import CELL, Record, answer, failure, recording, steps, visit

AR = steps(0, 0, drafted=0)
FAST = steps(1)


def compared(*visits: list[Record], promised: Promise = "text") -> dict[str, Any]:
    samples = read_tables(recording(*visits)).samples()
    return compare(samples[CELL, "ar"], samples[CELL, "dflash-b4"], promised)


def controlled(*visits: list[Record]) -> dict[str, int]:
    return control(read_tables(recording(*visits)).samples()[CELL, "ar"])


def test_identical_outputs_leave_nothing_to_judge() -> None:
    found = compared(
        visit("ar", 1, [answer("p0", AR)]), visit("dflash-b4", 1, [answer("p0", FAST)])
    )
    assert (found["compared"], found["identical"], found["different"]) == (1, 1, 0)
    assert found["wrong"] == 0
    assert found["near_tie"] is None


def test_a_different_output_is_counted_and_not_judged() -> None:
    found = compared(
        visit("ar", 1, [answer("p0", AR), answer("p1", AR)]),
        visit("dflash-b4", 1, [answer("p0", FAST, ids=[7, 8, 99]), answer("p1", FAST)]),
    )
    assert (found["compared"], found["identical"], found["different"]) == (2, 1, 1)
    assert found["wrong"] is None
    assert found["first_divergences"] == [{"request": "p0", "round": 1, "position": 2}]


def test_a_text_that_ends_early_diverges_at_its_end() -> None:
    found = compared(
        visit("ar", 1, [answer("p0", AR)]),
        visit("dflash-b4", 1, [answer("p0", FAST, ids=[7, 8])]),
    )
    assert found["first_divergences"][0]["position"] == 2


def test_at_most_three_divergences_are_listed() -> None:
    names = [f"p{index}" for index in range(5)]
    found = compared(
        visit("ar", 1, [answer(name, AR) for name in names]),
        visit("dflash-b4", 1, [answer(name, FAST, ids=[0]) for name in names]),
    )
    assert found["different"] == 5
    assert len(found["first_divergences"]) == 3


def test_each_round_is_compared_with_the_baseline_of_its_own_round() -> None:
    other: dict[str, Any] = {"ids": [1, 2, 3]}
    found = compared(
        visit("ar", 1, [answer("p0", AR)]),
        visit("dflash-b4", 1, [answer("p0", FAST)]),
        visit("ar", 2, [answer("p0", AR, **other)]),
        visit("dflash-b4", 2, [answer("p0", FAST, **other)]),
    )
    assert (found["compared"], found["identical"]) == (2, 2)


def test_what_cannot_be_compared_is_never_called_right() -> None:
    found = compared(
        visit("ar", 1, [answer("p0", AR, output_ids=None), failure("p1")]),
        visit("dflash-b4", 1, [answer("p0", FAST), answer("p1", FAST)]),
    )
    assert found["compared"] == 0
    assert found["wrong"] is None


def test_the_control_sets_the_baselines_later_rounds_beside_its_first() -> None:
    same, other = answer("p0", AR), answer("p0", AR, ids=[7, 8, 99])
    lines = [visit("ar", number, [given]) for number, given in enumerate((same, same, other), 1)]
    assert controlled(*lines) == {"control_compared": 2, "control_identical": 1}
    assert controlled(lines[0]) == {"control_compared": 0, "control_identical": 0}


def test_the_same_request_with_another_prompt_is_not_compared() -> None:
    other = answer("p0", FAST, prompt_sha256="another")
    found = compared(visit("ar", 1, [answer("p0", AR)]), visit("dflash-b4", 1, [other]))
    assert found["compared"] == 0


@pytest.mark.parametrize(
    ("rule", "temperature", "promised"),
    [
        ("match", 0.0, "text"),
        ("match", 1.0, "text"),
        ("reject", 0.0, "text"),
        ("reject", 1.0, "law"),
        ("typical", 0.0, "text"),
        ("typical", 1.0, "nothing"),
        (None, 1.0, "text"),
    ],
)
def test_what_an_arm_promises_is_its_rules(
    rule: Rule | None, temperature: float, promised: Promise
) -> None:
    cell = Cell(workload="x", batch_size=1, context_length=None, temperature=temperature)
    arm = PlannedArm(name="a", method="medusa", verify=rule)
    assert promise(arm, PlannedArm(name="ar", method="ar"), cell) == promised


def test_a_baseline_that_draws_with_noise_of_its_own_shares_its_law_alone() -> None:
    warm = Cell(workload="x", batch_size=1, context_length=None, temperature=1.0)
    cold = warm.model_copy(update={"temperature": 0.0})
    baseline = PlannedArm(name="b", method="eagle3", verify="reject")
    for rule in ("match", "reject"):
        arm = PlannedArm(name="a", method="medusa", verify=rule)
        assert (promise(arm, baseline, warm), promise(arm, baseline, cold)) == ("law", "text")
    assert promise(baseline, baseline, warm) == "text"
    assert (
        promise(baseline.model_copy(update={"name": "c", "verify": "typical"}), baseline, warm)
        == "nothing"
    )


def test_two_samples_of_one_law_are_neither_identical_nor_different() -> None:
    visits = (
        visit("ar", 1, [answer("p0", AR), answer("p1", AR)]),
        visit("dflash-b4", 1, [answer("p0", FAST, ids=[7, 8, 99]), answer("p1", FAST)]),
    )
    found = compared(*visits, promised="law")
    assert (found["compared"], found["identical"], found["different"]) == (0, 0, 0)
    assert (found["wrong"], found["near_tie"], found["first_divergences"]) == (None, None, [])
    assert compared(*visits, promised="nothing")["different"] == 1
