"""Pairs: the same request, prompt and round on both sides, or nothing."""

from typing import Any

import pytest

from dflash_bench.analysis.frames import Sample, read_tables
from dflash_bench.analysis.pairs import Pairs, pair
from tests.unit.analysis.recording import CELL, Record, answer, failure, recording, steps, visit

AR = steps(0, 0, 0, 0, drafted=0)
FAST = steps(1, 1)


def paired(*visits: list[Record]) -> Pairs:
    samples: dict[tuple[str, str], Sample] = read_tables(recording(*visits)).samples()
    return pair(samples[CELL, "ar"], samples[CELL, "dflash-b4"])


def test_both_sides_are_arrays_of_prompts_by_rounds() -> None:
    found = paired(
        visit("ar", 1, [answer("p0", AR), answer("p1", AR, step_s=2.0)]),
        visit("dflash-b4", 1, [answer("p1", FAST), answer("p0", FAST, step_s=3.0)]),
        visit("dflash-b4", 2, [answer("p1", FAST), answer("p0", FAST, draft_prefill_s=1.0)]),
        visit("ar", 2, [answer("p1", AR), answer("p0", AR)]),
    )
    assert found.prompts == ("p0", "p1")
    assert found.rounds == (1, 2)
    assert found.baseline.wall_s.tolist() == [[4.5, 4.5], [8.5, 4.5]]
    assert found.arm.wall_s.tolist() == [[6.5, 3.5], [2.5, 2.5]]
    assert found.arm.tokens.tolist() == [[5, 5], [5, 5]]
    assert found.left_out == 0


def test_decode_leaves_out_the_targets_prefill_and_keeps_the_drafters() -> None:
    found = paired(
        visit("ar", 1, [answer("p0", AR)]),
        visit("dflash-b4", 1, [answer("p0", FAST, draft_prefill_s=0.25)]),
    )
    assert found.arm.decode_s.tolist() == [[2.25]]
    assert found.arm.decode_tokens.tolist() == [[4]]
    assert found.arm.row_steps.tolist() == [[2]]


@pytest.mark.parametrize("side", ["ar", "dflash-b4"])
def test_a_failure_on_either_side_drops_the_pair_and_is_counted(side: str) -> None:
    answers = {
        "ar": [answer("p0", AR), answer("p1", AR)],
        "dflash-b4": [answer("p0", FAST), answer("p1", FAST)],
    }
    answers[side][0] = failure("p0")
    found = paired(*(visit(arm, 1, given) for arm, given in answers.items()))
    assert found.prompts == ("p1",)
    assert found.left_out == 1


def test_a_pair_that_failed_in_one_round_stays_in_the_others() -> None:
    both = [answer("p0", FAST), answer("p1", FAST)]
    found = paired(
        visit("ar", 1, [answer("p0", AR), answer("p1", AR)]),
        visit("dflash-b4", 1, both),
        visit("ar", 2, [failure("p0"), answer("p1", AR)]),
        visit("dflash-b4", 2, both),
    )
    assert found.baseline.tokens.tolist() == [[5, 0], [5, 5]]
    assert found.arm.tokens.tolist() == [[5, 0], [5, 5]]
    assert found.left_out == 1


def test_a_round_that_only_one_side_finished_is_no_pair_and_no_loss() -> None:
    found = paired(
        visit("ar", 1, [answer("p0", AR)]),
        visit("dflash-b4", 1, [answer("p0", FAST)]),
        visit("ar", 2, [answer("p0", AR)]),
    )
    assert found.rounds == (1,)
    assert found.left_out == 0


def test_the_same_request_with_another_prompt_is_no_pair() -> None:
    found = paired(
        visit("ar", 1, [answer("p0", AR), answer("p1", AR)]),
        visit("dflash-b4", 1, [answer("p0", FAST, prompt_sha256="x"), answer("p1", FAST)]),
    )
    assert found.prompts == ("p1",)
    assert found.left_out == 1


def test_requests_that_repeat_a_prompt_share_its_row() -> None:
    same: dict[str, Any] = {"prompt_sha256": "x"}
    found = paired(
        visit("ar", 1, [answer("p0", AR, **same), answer("p1", AR, **same)]),
        visit("dflash-b4", 1, [answer("p0", FAST, **same), answer("p1", FAST, **same)]),
    )
    assert found.prompts == ("p0",)
    assert found.arm.tokens.tolist() == [[10]]


def test_nothing_in_common_gives_empty_pairs() -> None:
    found = paired(visit("ar", 1, [answer("p0", AR)]), visit("dflash-b4", 2, [answer("p0", FAST)]))
    assert found.baseline.tokens.shape == (0, 0)


def test_a_request_without_a_share_of_the_window_is_left_out() -> None:
    found = paired(
        visit("ar", 1, [answer("p0", AR), answer("p1", AR)]),
        visit("dflash-b4", 1, [answer("p0", FAST, window=None), answer("p1", FAST)]),
    )
    assert found.prompts == ("p1",)
    assert found.left_out == 1
