"""The plan covers the grid once, in an order under which drift and neighbours cancel."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_bench.errors import ConfigError
from dflash_bench.plan import Plan, make_plan, round_orders, williams
from dflash_bench.spec import Spec, load_spec
from tests.fakes.scripted import Scripted, write_spec


def plan_of(folder: Path, **changes: Any) -> Plan:
    spec = load_spec(write_spec(folder, **changes))
    return make_plan(spec, Scripted(spec).refusal)


def spec_with(
    blocks: list[int], batches: list[int], temperatures: list[float], rounds: int
) -> Spec:
    return Spec.model_validate(
        {
            "name": "x",
            "target": "t",
            "arms": {"ar": {"method": "ar"}, "dflash": {"method": "dflash", "draft": "d"}},
            "workloads": ["a", "b"],
            "sweep": {"block_size": blocks, "batch_size": batches, "temperature": temperatures},
            "design": {"rounds": rounds},
        }
    )


@given(
    blocks=st.lists(st.integers(2, 16), min_size=1, max_size=3, unique=True),
    batches=st.lists(st.integers(1, 8), min_size=1, max_size=3, unique=True),
    temperatures=st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=2, unique=True),
    rounds=st.integers(1, 9),
)
def test_every_arm_visits_every_cell_once_a_round(
    blocks: list[int], batches: list[int], temperatures: list[float], rounds: int
) -> None:
    plan = make_plan(spec_with(blocks, batches, temperatures, rounds))
    assert len(plan.cells) == 2 * len(batches) * len(temperatures)
    seen = Counter((visit.cell, visit.arm) for visit in plan.visits if visit.role == "measure")
    assert seen == {(cell, arm): rounds for cell in plan.cells for arm in plan.arms}
    assert len({visit.id for visit in plan.visits}) == len(plan.visits)


def test_the_plan_is_a_function_of_the_spec() -> None:
    spec = spec_with([4, 8], [1, 2], [0.0], 4)
    assert make_plan(spec) == make_plan(spec)


def test_block_size_multiplies_only_the_arms_that_have_one(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, sweep={"block_size": [4, 8]})
    assert list(plan.arms) == ["ar", "dflash-b4", "dflash-b8"]
    assert plan.arms["ar"].block_size is None
    assert plan.arms["dflash-b8"].num_draft_tokens == 7


def test_an_arms_own_block_size_overrides_the_axis(tmp_path: Path) -> None:
    arms = {"ar": {"method": "ar"}, "d": {"method": "dflash", "draft": "x", "block_size": 5}}
    plan = plan_of(tmp_path, arms=arms, sweep={"block_size": [4, 8]})
    assert plan.arms["d"].block_size == 5


def test_a_planned_arm_has_its_rule_and_its_settings(tmp_path: Path) -> None:
    arms = {
        "ar": {"method": "ar"},
        "tree": {"method": "medusa", "draft": "x", "tree": {"top_k": 4}, "verify": "typical"},
        "short": {"method": "dflash", "draft": "x", "verify_length": 6},
    }
    plan = plan_of(tmp_path, arms=arms, sweep={}, sampling={"verify": "reject"})
    assert {name: arm.verify for name, arm in plan.arms.items()} == {
        "ar": None,
        "tree": "typical",
        "short": "reject",
    }
    assert plan.arms["tree"].settings == {"tree": {"top_k": 4, "depth": None}}
    assert plan.arms["tree"].num_draft_tokens is None
    assert (plan.arms["short"].block_size, plan.arms["short"].num_draft_tokens) == (None, 5)


def test_more_nodes_than_a_swept_block_has_cannot_be_verified(tmp_path: Path) -> None:
    arms = {"ar": {"method": "ar"}, "d": {"method": "dflash", "draft": "x", "verify_length": 6}}
    with pytest.raises(ConfigError, match=r"arms\.d\.verify_length: 6 is above the 4 of sweep"):
        plan_of(tmp_path, arms=arms, sweep={"block_size": [4, 8]})
    plan = plan_of(tmp_path, arms=arms, sweep={"block_size": [8]})
    assert plan.arms["d-b8"].num_draft_tokens == 5


@given(arms=st.integers(2, 7), rounds=st.integers(1, 12), seed=st.text(max_size=5))
def test_each_even_round_mirrors_the_one_before(arms: int, rounds: int, seed: str) -> None:
    orders = round_orders([str(arm) for arm in range(arms)], rounds, seed)[1:]
    for first, second in zip(orders[::2], orders[1::2], strict=False):
        assert second == first[::-1]


def test_two_arms_go_abba_baab() -> None:
    orders = round_orders(["a", "b"], 4, "0")[1:]
    first, second = orders[0], orders[0][::-1]
    assert orders == [first, second, second, first]


@pytest.mark.parametrize("size", [2, 4, 6, 8])
def test_in_a_williams_design_each_follows_each_other_equally_often(size: int) -> None:
    followed = Counter(pair for row in williams(size) for pair in pairwise(row))
    assert set(followed.values()) == {1}
    assert len(followed) == size * (size - 1)


@pytest.mark.parametrize("size", [3, 5, 7])
def test_an_odd_williams_design_is_balanced_with_its_mirror(size: int) -> None:
    rows = williams(size)
    followed = Counter(pair for row in rows + [row[::-1] for row in rows] for pair in pairwise(row))
    assert set(followed.values()) == {2}
    assert len(followed) == size * (size - 1)


def test_the_baseline_is_first_and_last_of_all(tmp_path: Path) -> None:
    visits = plan_of(tmp_path).visits
    assert (visits[0].arm, visits[0].role) == ("ar", "control_first")
    assert (visits[-1].arm, visits[-1].role) == ("ar", "control_last")


def test_the_discarded_round_comes_before_the_measured_ones(tmp_path: Path) -> None:
    roles = [visit.role for visit in plan_of(tmp_path).visits[1:-1]]
    assert roles == ["discard"] * 2 + ["measure"] * 8


def test_what_the_runner_cannot_do_is_listed_and_not_visited(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, sweep={"block_size": [4], "batch_size": [1, 16]})
    assert [(entry.arm, entry.reason) for entry in plan.unsupported] == [
        ("dflash-b4", "batches over 8 are not scripted")
    ]
    assert not [v for v in plan.visits if v.cell == "mine.b16.t0" and v.arm == "dflash-b4"]


def test_a_plan_in_which_nothing_remains_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="batches over 8 are not scripted"):
        plan_of(tmp_path, sweep={"block_size": [4], "batch_size": [16]})


def test_a_plan_without_a_rival_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to compare"):
        plan_of(tmp_path, arms={"ar": {"method": "ar"}})


@pytest.mark.parametrize("primary", [{"batch_size": 3}, {"workload": "mine"}, {"batchsize": 1}])
def test_a_primary_that_is_not_one_cell_is_refused(tmp_path: Path, primary: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"design\.primary"):
        plan_of(tmp_path, sweep={"batch_size": [1, 2]}, design={"primary": primary})


def test_two_workloads_of_one_name_are_refused() -> None:
    spec = Spec.model_validate(
        {
            "name": "x",
            "target": "t",
            "arms": {"ar": {"method": "ar"}, "d": {"method": "dflash"}},
            "workloads": ["/a/mine.jsonl", "/b/mine.jsonl"],
        }
    )
    with pytest.raises(ConfigError, match="same name"):
        make_plan(spec)


def test_two_arms_of_one_name_are_refused(tmp_path: Path) -> None:
    drafting = {"method": "dflash", "draft": "x"}
    arms = {"ar": {"method": "ar"}, "dflash": drafting, "dflash-b4": drafting | {"block_size": 4}}
    with pytest.raises(ConfigError, match="two arms are called 'dflash-b4'"):
        plan_of(tmp_path, arms=arms)


def test_a_baseline_that_becomes_several_arms_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"design\.baseline: 'dflash' became one arm per"):
        plan_of(tmp_path, design={"baseline": "dflash"})


def test_close_temperatures_are_different_cells(tmp_path: Path) -> None:
    sweep = {"block_size": [4], "temperature": [0.7, 0.70000001, 1.0]}
    assert list(plan_of(tmp_path, sweep=sweep).cells) == [
        "mine.b1.t0.7",
        "mine.b1.t0.70000001",
        "mine.b1.t1",
    ]
