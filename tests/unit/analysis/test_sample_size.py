"""How much more would settle it: arithmetic, then a check that it does."""

from dataclasses import replace
from math import log

import pytest

from dflash_bench.analysis.sample_size import POWER_QUANTILE, needed
from dflash_bench.analysis.stats import LogRatio
from dflash_bench.analysis.verdict import best_claim, decide

WIDE = LogRatio(log(1.15), prompts=48, rounds=4, var_prompts=0.06**2, var_rounds=0.01**2)


def test_prompts_alone_shrink_the_prompts_variance_to_what_the_rounds_leave() -> None:
    distance = log(1.15) - log(1.05)
    goal = (distance / (WIDE.quantile() + POWER_QUANTILE)) ** 2
    found = needed(WIDE, delta=0.05)
    assert found.prompts is not None
    assert found.prompts == pytest.approx(48 * 0.06**2 / (goal - 0.01**2), abs=1)
    assert found.rounds is None  # the prompts' variance alone is above the goal


def test_with_that_many_prompts_the_same_estimate_is_settled() -> None:
    found = needed(WIDE, delta=0.05)
    assert found.prompts is not None
    assert decide(best_claim(WIDE, 0.05), 4, 0) == "UNPROVEN"
    repeated = replace(WIDE, prompts=found.prompts, var_prompts=0.06**2 * 48 / found.prompts)
    assert decide(best_claim(repeated, 0.05), 4, 0) == "HELPS"


def test_these_prompts_again_need_rounds_only() -> None:
    found = needed(replace(WIDE, scope="prompts", var_rounds=0.06**2), delta=0.05)
    assert found.prompts is None
    assert found.rounds is not None
    assert found.rounds > 4


def test_when_neither_suffices_both_grow() -> None:
    found = needed(replace(WIDE, var_rounds=0.06**2), delta=0.05)
    assert (found.prompts, found.rounds) == (None, None)
    assert found.factor is not None
    assert found.factor > 1


def test_an_estimate_on_the_border_is_out_of_reach() -> None:
    found = needed(replace(WIDE, value=log(1.05)), delta=0.05)
    assert (found.prompts, found.rounds, found.factor) == (None, None, None)


def test_more_comparisons_need_more() -> None:
    alone, among = (needed(WIDE, 0.05, comparisons=count).prompts for count in (1, 12))
    assert alone is not None
    assert among is not None
    assert among > alone
