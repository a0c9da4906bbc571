"""Acceptance length and rates, against numbers worked out by hand."""

import numpy as np
import pytest

from dflash_bench.analysis.acceptance import (
    AcceptanceLength,
    acceptance_length,
    by_histogram,
    by_position,
)
from dflash_bench.analysis.metrics import ratio
from dflash_bench.analysis.steps import Ints, Steps, StepsBuilder
from tests.unit.analysis import recording


def taken(
    *requests: tuple[int, ...], cut_last: int = 0, drafted: int = 3, **told: tuple[int, ...]
) -> Steps:
    builder = StepsBuilder()
    for accepted in requests:
        one = recording.steps(*accepted, drafted=drafted, cut_last=cut_last, **told)
        builder.add(one.model_dump(mode="json"))
    return builder.build()


def tau_of(steps: Steps, prompts: Ints, seed: int) -> AcceptanceLength | None:
    committed, count = steps.per_request(steps.committed), steps.lengths
    return acceptance_length(committed.astype(float), count.astype(float), prompts, seed)


def rate_of(steps: Steps) -> float | None:
    return ratio(float(steps.accepted.sum()), float(steps.drafted.sum()))


def test_a_histogram_gives_the_same_positions_as_the_steps_that_it_counts() -> None:
    steps = taken((3, 0), (2, 2, 2))
    told, counted = by_position(steps), by_histogram([1, 0, 3, 1])
    assert counted == told


def test_no_histogram_gives_no_positions() -> None:
    assert by_histogram([]).uncut_mean is None


def test_tau_is_pooled_over_steps_and_beside_it_the_mean_of_requests() -> None:
    # Request 0 commits 4 + 1 in 2 steps, request 1 commits 3 + 3 + 3 in 3: 14 / 5 pooled, (2.5 + 3) / 2 as a mean.
    found = tau_of(taken((3, 0), (2, 2, 2)), np.array([0, 1]), seed=0)
    assert found is not None
    assert found.value == pytest.approx(2.8)
    assert found.per_request_mean == pytest.approx(2.75)


def test_the_interval_of_two_prompts_is_theirs() -> None:
    # Resampling two clusters gives each alone with probability 1/4: the 2.5 % quantiles are the clusters' own taus.
    found = tau_of(taken((3, 0), (2, 2, 2)), np.array([0, 1]), seed=0)
    assert found is not None
    assert (found.ci_low, found.ci_high) == (2.5, 3.0)


def test_rounds_of_one_prompt_are_one_cluster() -> None:
    found = tau_of(taken((3, 0), (2, 2)), np.array([0, 0]), seed=0)
    assert found is not None
    assert found.ci_low is None


def test_the_same_seed_gives_the_same_interval_however_it_is_chunked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps, prompts = taken((3, 0), (2, 2, 2), (1,), (0, 0, 1)), np.array([0, 1, 2, 3])
    whole = tau_of(steps, prompts, seed=3)
    monkeypatch.setattr("dflash_bench.analysis.acceptance.CHUNK", 40)
    assert tau_of(steps, prompts, seed=3) == whole


def test_without_steps_there_is_no_tau() -> None:
    builder = StepsBuilder()
    builder.add(None)
    assert tau_of(builder.build(), np.array([0]), seed=0) is None


def test_ar_has_a_tau_of_one_and_no_acceptance_rate() -> None:
    steps = taken((0, 0, 0), drafted=0)
    found = tau_of(steps, np.array([0]), seed=0)
    assert found is not None
    assert found.value == 1.0
    assert rate_of(steps) is None
    assert by_position(steps).marginal == []


def test_rates_by_position() -> None:
    # Four steps of three drafts: 3, 2, 0, 1 accepted. At least 1 in three of four, at least 2 in two, 3 in one.
    found = by_position(taken((3, 2, 0, 1)))
    assert found.marginal == [0.75, 0.5, 0.25]
    assert found.conditional == pytest.approx([3 / 4, 2 / 3, 1 / 2])
    assert found.histogram == [1, 1, 1, 1]
    assert found.uncut_mean == pytest.approx(1 + sum(found.marginal))


def test_a_step_that_was_cut_says_nothing_about_positions() -> None:
    whole = by_position(taken((3, 1)))
    assert by_position(taken((3, 1, 2), cut_last=1)) == whole


def test_a_cut_step_still_counts_for_tau_and_for_the_rate() -> None:
    steps = taken((3, 1, 2), cut_last=1)
    found = tau_of(steps, np.array([0]), seed=0)
    assert found is not None
    assert found.value == pytest.approx((4 + 2 + 3) / 3)
    assert rate_of(steps) == pytest.approx(6 / 9)


def test_a_position_that_no_step_reached_is_unknown_not_zero() -> None:
    found = by_position(taken((0, 0)))
    assert found.marginal == [0.0, 0.0, 0.0]
    assert found.conditional == [0.0, None, None]


def test_a_short_draft_is_not_a_refusal() -> None:
    builder = StepsBuilder()
    ragged = {"drafted": [1, 3], "accepted": [1, 3], "committed": [2, 4], "cut": [0, 0]}
    builder.add(ragged)
    found = by_position(builder.build())
    assert found.conditional == [1.0, 1.0, 1.0]
    assert found.marginal == [1.0, 0.5, 0.5]


def test_steps_all_cut_leave_the_histogram_empty() -> None:
    found = by_position(taken((2,), cut_last=1))
    assert found.histogram == []
    assert found.uncut_mean is None


def test_a_position_of_a_tree_is_a_depth_not_a_node() -> None:
    # Sixty nodes, at most three on a path; the second step's tree was two deep and all of it was accepted.
    steps = taken((3, 2, 0, 1), drafted=60, depth=(3, 2, 3, 3))
    found = by_position(steps, tree=True)
    assert found.marginal == [0.75, 0.5, 0.25]
    assert found.conditional == pytest.approx([3 / 4, 2 / 3, 1.0])
    assert rate_of(steps) == pytest.approx(6 / 240)  # of the nodes


def test_a_tree_whose_depth_is_not_told_is_as_deep_as_it_was_ever_accepted() -> None:
    found = by_position(taken((2, 0, 1), drafted=60), tree=True)
    assert found.marginal == pytest.approx([2 / 3, 1 / 3])
    assert found.conditional == pytest.approx([2 / 3, 1 / 2])
    assert by_position(taken((0, 0), drafted=60), tree=True).marginal == []


def test_passes_are_kept_beside_the_steps_where_they_are_told() -> None:
    builder = StepsBuilder()
    builder.add(recording.steps(1, scheduled=(5,), busy=(2,)).model_dump(mode="json"))
    builder.add(recording.steps(0, 2).model_dump(mode="json"))
    steps = builder.build()
    assert steps.scheduled.tolist() == [5, -1, -1]
    assert steps.of(np.array([1])).busy.tolist() == [-1, -1]
