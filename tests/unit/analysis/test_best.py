"""The best arms are a set, told apart pair by pair."""

from dflash_bench.analysis.best import best_arms
from dflash_bench.analysis.frames import Sample, read_tables
from tests.unit.analysis.recording import CELL, answer, recording, steps, visit

# Prompts differ tenfold in cost and rounds by a tenth, for all arms alike.
PROMPTS = {"a": 1.0, "b": 10.0, "c": 3.0}
ROUNDS = {1: 1.0, 2: 1.1, 3: 0.95, 4: 1.05}


def samples(costs: dict[str, dict[int, float]]) -> dict[str, Sample]:
    """Return arms whose steps cost so much in each round, times what the prompt and the round cost."""
    visits = [
        visit(
            arm,
            number,
            [
                answer(prompt, steps(1, 1, 1, 1), step_s=weight * ROUNDS[number] * cost)
                for prompt, weight in PROMPTS.items()
            ],
        )
        for arm, by_round in costs.items()
        for number, cost in by_round.items()
    ]
    found = read_tables(recording(*visits)).samples()
    return {arm: found[CELL, arm] for arm in costs}


def steady(cost: float) -> dict[int, float]:
    return dict.fromkeys(ROUNDS, cost)


def test_an_arm_that_is_a_little_slower_in_every_pair_is_not_among_the_best() -> None:
    found = samples({"x": steady(1.0), "y": steady(1.1)})
    assert best_arms(found, {"x": 2.0, "y": 1.85}, "workload") == ["x"]


def test_an_arm_that_is_slower_in_some_rounds_only_is() -> None:
    found = samples({"x": steady(1.0), "y": {1: 1.1, 2: 0.9, 3: 1.1, 4: 0.95}})
    assert best_arms(found, {"x": 2.0, "y": 1.98}, "workload") == ["x", "y"]


def test_one_round_tells_nothing_apart() -> None:
    found = samples({"x": {1: 1.0}, "y": {1: 3.0}})
    assert best_arms(found, {"x": 2.0, "y": 0.7}, "workload") == ["x", "y"]


def test_an_arm_alone_is_best() -> None:
    assert best_arms(samples({"x": steady(1.0)}), {"x": 0.5}, "workload") == ["x"]
    assert best_arms({}, {}, "workload") == []
