"""Upstream's four styles of listing steps."""

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.runners.acceptance.canonical import check, of_steps
from dflash_bench.runners.acceptance.step_lists import (
    MLX,
    MLX_SNAPSHOT,
    TRANSFORMERS,
    TRANSFORMERS_SNAPSHOT,
    Style,
    of_list,
)

# 48 tokens from a drafter that is always right, block 8: what each of the four printed.
FULL = [
    (TRANSFORMERS, [8, 8, 8, 8, 8, 7], 0),
    (TRANSFORMERS_SNAPSHOT, [8, 8, 8, 8, 8, 8], 1),
    (MLX, [None, 8, 8, 8, 8, 8, 7, None], 0),
    (MLX_SNAPSHOT, [1, 8, 8, 8, 8, 8, 8, 0], 1),
]


@pytest.mark.parametrize(
    ("style", "told", "cut"), FULL, ids=lambda value: getattr(value, "name", "")
)
def test_the_same_48_tokens_are_the_same_steps_in_every_style(
    style: Style, told: list[int | None], cut: int
) -> None:
    steps = of_list(told, style, output_tokens=48, block_size=8, max_new_tokens=48)
    assert steps.committed == (8, 8, 8, 8, 8, 7)
    assert steps.cut[-1] == cut
    assert steps.drafted[:5] == (7, 7, 7, 7, 7)
    assert check(of_steps(style.name, steps), 48) == []


def test_the_last_block_of_0_1_0_is_as_wide_as_what_remains() -> None:
    steps = of_list([8, 8, 3], TRANSFORMERS, output_tokens=20, block_size=8, max_new_tokens=20)
    assert steps.drafted == (7, 7, 3)


def test_eos_at_once_is_no_step() -> None:
    steps = of_list([None], MLX, output_tokens=1, block_size=8, max_new_tokens=48)
    assert steps.committed == ()


def test_an_answer_that_eos_ended_keeps_no_mark_at_the_end() -> None:
    steps = of_list([None, 8, 3], MLX, output_tokens=12, block_size=8, max_new_tokens=48)
    assert steps.committed == (8, 3)


def test_a_list_of_another_style_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"\[1, 8, 8\] does not make up the 17 output tokens"):
        of_list([1, 8, 8], TRANSFORMERS, output_tokens=17, block_size=8, max_new_tokens=17)
    with pytest.raises(ConfigError, match="does not make up"):
        of_list([8, 8], TRANSFORMERS_SNAPSHOT, output_tokens=30, block_size=8, max_new_tokens=30)
