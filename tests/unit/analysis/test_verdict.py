"""Verdicts: what an interval allows to be said, alone and among others."""

from math import log

import pytest

from dflash_bench.analysis.stats import LogRatio
from dflash_bench.analysis.verdict import Claim, adjusted_claims, best_claim, decide, holm


def ratio(value: float, se: float = 0.01) -> LogRatio:
    return LogRatio(log(value), 40, 8, var_prompts=se**2 / 2, var_rounds=se**2 / 2)


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(2.0, "HELPS"), (1.1, "HELPS"), (1.0, "NEUTRAL"), (0.99, "NEUTRAL"), (0.9, "HURTS")],
)
def test_a_tight_interval_settles_it(value: float, verdict: str) -> None:
    claim = best_claim(ratio(value), delta=0.05)
    assert (claim.verdict, decide(claim, rounds=4, different=0)) == (verdict, verdict)


@pytest.mark.parametrize("value", [0.9, 0.94, 0.96, 1.0, 1.03, 1.06, 1.08, 1.2])
@pytest.mark.parametrize("se", [0.005, 0.01, 0.02, 0.05])
def test_alone_a_verdict_is_what_the_interval_says(value: float, se: float) -> None:
    found = ratio(value, se)
    low, high = found.interval() or (0.0, 0.0)
    expected = "UNPROVEN"
    if low > 1.05:
        expected = "HELPS"
    elif high < 1 / 1.05:
        expected = "HURTS"
    elif low > 1 / 1.05 and high < 1.05:
        expected = "NEUTRAL"
    assert decide(best_claim(found, 0.05), rounds=4, different=0) == expected


def test_under_four_rounds_everything_is_unproven() -> None:
    claim = best_claim(ratio(3.0), 0.05)
    assert decide(claim, rounds=3, different=0) == "UNPROVEN"
    assert decide(claim, rounds=4, different=0) == "HELPS"
    assert decide(claim, rounds=4, different=0, broken=1) == "UNPROVEN"


def test_without_an_interval_everything_is_unproven() -> None:
    assert decide(None, rounds=8, different=0) == "UNPROVEN"


def test_a_method_that_changes_the_text_never_helps_but_may_hurt() -> None:
    assert decide(best_claim(ratio(2.0), 0.05), rounds=4, different=1) == "UNPROVEN"
    assert decide(best_claim(ratio(0.5), 0.05), rounds=4, different=1) == "HURTS"


def test_holms_adjustment_by_hand() -> None:
    # Sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1: 0.04, 0.06, 0.06, 0.04, and never falling: 0.04, 0.06, 0.06, 0.06.
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([]) == []
    assert holm([0.7, 0.9]) == [1.0, 1.0]


def test_the_primary_cell_keeps_its_p_value_and_takes_no_share_from_the_others() -> None:
    claims = {
        ("first", "a"): Claim("HELPS", 0.03),
        ("second", "a"): Claim("HELPS", 0.03),
        ("third", "a"): Claim("HURTS", 0.01),
    }
    found = adjusted_claims(claims, primary="first")
    assert {key[0]: claim.p for key, claim in found.items()} == pytest.approx(
        {"first": 0.03, "second": 0.03, "third": 0.02}
    )
    without = adjusted_claims(claims, primary=None)
    assert {key[0]: claim.p for key, claim in without.items()} == pytest.approx(
        {"first": 0.06, "second": 0.06, "third": 0.03}
    )
    assert [claim.verdict for claim in found.values()] == ["HELPS", "HELPS", "HURTS"]


def test_a_lossy_rule_never_helps_but_may_hurt() -> None:
    assert decide(best_claim(ratio(2.0), 0.05), rounds=4, different=0, lossy=True) == "UNPROVEN"
    assert decide(best_claim(ratio(0.5), 0.05), rounds=4, different=0, lossy=True) == "HURTS"
