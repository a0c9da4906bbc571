"""Reasons are sentences for people: they name the metric, the loop, the cost of a step, and what is missing."""

from dataclasses import replace
from math import log

from dflash_bench.analysis.reason import Evidence, reason
from dflash_bench.analysis.stats import LogRatio
from dflash_bench.analysis.verdict import Claim

RATIO = LogRatio(log(2.31), 48, 8, var_prompts=0.0004, var_rounds=0.0001)
EVIDENCE = Evidence(
    ratio=RATIO,
    claim=Claim("HELPS", 0.0),
    delta=0.05,
    batch_size=1,
    occupancy=0.98,
    tau=4.1,
    break_even_tau=1.6,
    rounds=8,
    compared=384,
    different=0,
    comparisons=1,
)


def test_a_verdict_names_metric_interval_loop_occupancy_and_step_cost() -> None:
    assert reason("HELPS", EVIDENCE) == (
        "2.31x (2.21-2.42) end to end, prefill included, at batch 1 in a closed loop "
        "with 98 % of the slots busy: tau 4.10 against a break-even of 1.60."
    )


def test_what_was_not_measured_is_not_mentioned() -> None:
    bare = replace(EVIDENCE, occupancy=None, break_even_tau=None)
    assert reason("HELPS", bare).endswith("at batch 1 in a closed loop.")


def test_neutral_names_the_margin() -> None:
    assert reason("NEUTRAL", EVIDENCE).endswith("The difference is within 5 %.")


def test_too_few_rounds_say_how_many_it_takes() -> None:
    few = replace(EVIDENCE, rounds=2)
    assert reason("UNPROVEN", few).endswith("A verdict needs 4 rounds; there are 2.")


def test_changed_texts_say_how_many() -> None:
    changed = replace(EVIDENCE, different=3)
    assert "3 of 384 outputs differ from the baseline's" in reason("UNPROVEN", changed)


def test_no_pairs_and_no_interval_are_said() -> None:
    assert reason("UNPROVEN", replace(EVIDENCE, ratio=None)).startswith("No round has requests")
    lone = replace(EVIDENCE, ratio=replace(RATIO, var_prompts=None), claim=None)
    assert "2.31x (no interval)" in reason("UNPROVEN", lone)
    assert reason("UNPROVEN", lone).endswith("at least 2 prompts, and tokens in every round.")


def test_unproven_says_what_is_excluded_and_what_would_settle_it() -> None:
    unclear = replace(
        EVIDENCE,
        ratio=LogRatio(log(1.15), 48, 8, var_prompts=0.06**2, var_rounds=0.0001),
        claim=Claim("HELPS", 0.15),
    )
    found = reason("UNPROVEN", unclear)
    assert "A loss of over 5 % is excluded; a gain of over 5 % is not shown." in found
    assert "prompts (now 48) would probably settle it." in found
    slow = replace(unclear, ratio=replace(unclear.ratio or RATIO, value=log(0.87)))
    assert "A gain of over 5 % is excluded" in reason("UNPROVEN", slow)


def test_an_open_question_excludes_nothing() -> None:
    wide = replace(RATIO, value=log(1.01), var_prompts=0.1)
    found = reason("UNPROVEN", replace(EVIDENCE, ratio=wide, claim=Claim("NEUTRAL", 0.9)))
    assert "Neither a gain nor a loss of over 5 % is excluded." in found


def test_a_claim_lost_among_many_is_said_to_be_so() -> None:
    close = replace(RATIO, value=log(1.10), var_prompts=0.0003)
    among = replace(EVIDENCE, ratio=close, claim=Claim("HELPS", 0.2), comparisons=12)
    assert "not among 12 comparisons" in reason("UNPROVEN", among)


def test_a_lossy_rule_is_named_before_its_speed() -> None:
    found = reason("UNPROVEN", replace(EVIDENCE, lossy=True, different=3))
    assert found.startswith("LOSSY: 2.31x")
    assert found.endswith("a method that does is not said to help.")
