"""The log ratio and its two variances, against numbers worked out by hand."""

from math import exp, inf, log, sqrt

import numpy as np
import pytest

from dflash_bench.analysis.stats import (
    LogRatio,
    Rate,
    geometric_mean,
    log_ratio,
    per_prompt,
    per_round,
)

# Two prompts, two rounds. The baseline takes a second a token; the arm gets 10 and 20 tokens a prompt.
TOKENS = np.array([[10.0, 10.0], [20.0, 20.0]])
BASELINE = Rate(TOKENS, TOKENS)
ARM = Rate(np.array([[5.0, 5.0], [4.0, 10.0]]), TOKENS)


def test_the_estimate_is_a_ratio_of_totals() -> None:
    found = log_ratio(BASELINE, ARM)
    assert found is not None
    assert found.ratio == pytest.approx(60 / 24)


def test_each_round_and_each_prompt_has_its_ratio() -> None:
    assert np.exp(per_round(BASELINE, ARM)) == pytest.approx([30 / 9, 30 / 15])
    assert np.exp(per_prompt(BASELINE, ARM)) == pytest.approx([20 / 10, 40 / 14])
    assert geometric_mean(BASELINE, ARM) == pytest.approx(sqrt(2 * 40 / 14))


def test_the_prompts_variance_is_the_jackknife() -> None:
    # Left out one by one, the ratios are 40/14 and 2: (P - 1) / P times the sum of squares about their mean.
    found = log_ratio(BASELINE, ARM)
    assert found is not None
    assert found.var_prompts == pytest.approx(1 / 2 * (log(40 / 14) - log(2)) ** 2 / 2)


def test_the_rounds_variance_is_that_of_their_mean() -> None:
    found = log_ratio(BASELINE, ARM)
    assert found is not None
    assert found.var_rounds == pytest.approx((log(30 / 9) - log(2)) ** 2 / 2 / 2)


def test_the_jackknife_of_a_plain_mean_is_its_textbook_variance() -> None:
    # With equal tokens and one varying side, small deviations of the log ratio are those of a mean.
    seconds = np.array([[1.0], [1.001], [0.998], [1.002]])
    ones = np.ones((4, 1))
    found = log_ratio(Rate(seconds, ones), Rate(ones, ones))
    assert found is not None
    assert found.var_prompts == pytest.approx(seconds.var(ddof=1) / 4, rel=1e-3)


def test_variances_and_degrees_of_freedom_add_up_after_satterthwaite() -> None:
    found = LogRatio(0.0, prompts=11, rounds=5, var_prompts=0.03, var_rounds=0.01)
    assert found.se == pytest.approx(0.2)
    assert found.df == pytest.approx(0.04**2 / (0.03**2 / 10 + 0.01**2 / 4))


def test_the_scope_of_these_prompts_leaves_their_spread_out() -> None:
    found = LogRatio(0.0, 11, 5, var_prompts=0.03, var_rounds=0.01, scope="prompts")
    assert found.se == pytest.approx(0.1)
    assert found.df == pytest.approx(4)


def test_the_interval_is_students_about_the_logarithm() -> None:
    # t(0.975; 4) = 2.776445 (any table).
    found = LogRatio(log(2), 11, 5, var_prompts=None, var_rounds=0.01, scope="prompts")
    assert found.interval() == pytest.approx((2 * exp(-0.2776445), 2 * exp(0.2776445)))


@pytest.mark.parametrize(
    ("prompts", "rounds", "scope", "known"),
    [
        (1, 4, "workload", False),
        (4, 1, "workload", False),
        (2, 2, "workload", True),
        (1, 2, "prompts", True),
        (4, 1, "prompts", False),
    ],
)
def test_under_two_members_of_a_source_in_scope_there_is_no_interval(
    prompts: int, rounds: int, scope: str, known: bool
) -> None:
    ones = np.ones((prompts, rounds))
    found = log_ratio(Rate(2 * ones, ones), Rate(ones, ones), scope)  # type: ignore[arg-type]
    assert found is not None
    assert found.ratio == pytest.approx(2.0)
    assert (found.interval() is not None) is known
    assert (found.p_above(1.0) < 0.5) is known


def test_nothing_varies_then_the_interval_is_the_value() -> None:
    found = LogRatio(log(2), 4, 4, var_prompts=0.0, var_rounds=0.0)
    assert found.df == inf
    assert found.interval() == pytest.approx((2.0, 2.0))
    assert (found.p_above(1.9), found.p_above(2.1), found.p_below(2.1)) == (0.0, 1.0, 0.0)


def test_p_values_mirror_each_other() -> None:
    found = LogRatio(log(1.2), 10, 4, var_prompts=0.01, var_rounds=0.001)
    assert found.p_above(1.1) == pytest.approx(1 - found.p_below(1.1))
    assert found.p_above(1.2) == pytest.approx(0.5)


@pytest.mark.parametrize("shape", [(0, 0), (2, 2)])
def test_nothing_measured_gives_no_ratio(shape: tuple[int, int]) -> None:
    nothing = Rate(np.zeros(shape), np.zeros(shape))
    assert log_ratio(nothing, nothing) is None
    assert geometric_mean(nothing, nothing) is None


def test_a_round_without_data_leaves_the_value_and_takes_the_interval() -> None:
    seconds = np.array([[1.0, 0.0], [2.0, 0.0]])
    found = log_ratio(Rate(seconds, seconds), Rate(seconds, seconds))
    assert found is not None
    assert found.interval() is None
