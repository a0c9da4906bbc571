"""The generated families: the same seed gives the same rows, and no seed mixes the two sides of the split."""

import ast
import json
import random
import re
from collections.abc import Callable

import pytest

from dflash_bench.lab.corpus import chat, copying, functions, word_problems
from dflash_bench.lab.corpus.filler import SEPARATOR, with_filler
from dflash_bench.lab.corpus.mixture import GENERATED
from dflash_bench.lab.corpus.row import Row, draw, is_held_out

FAMILIES = pytest.mark.parametrize("rows", GENERATED.values(), ids=GENERATED)
Rows = Callable[..., list[Row]]


@FAMILIES
def test_the_same_seed_gives_the_same_rows(rows: Rows) -> None:
    assert rows(5, 30, held_out=False) == rows(5, 30, held_out=False)
    assert rows(5, 30, held_out=False) != rows(6, 30, held_out=False)


@FAMILIES
def test_held_out_rows_are_disjoint_from_training_rows_of_any_seed(rows: Rows) -> None:
    held_out = {row.prompt for seed in range(3) for row in rows(seed, 40, held_out=True)}
    trained = {row.prompt for seed in range(3) for row in rows(seed, 300, held_out=False)}
    assert len(held_out) >= 40
    assert not held_out & trained


@FAMILIES
def test_more_rows_begin_with_the_fewer(rows: Rows) -> None:
    assert rows(1, 40, held_out=False)[:10] == rows(1, 10, held_out=False)


def test_a_dry_generator_ends_with_what_there_is() -> None:
    found = draw(
        "coin", lambda rng: (rng.choice(["heads", "tails"]), ""), seed=0, count=9, held_out=False
    )
    assert {row.prompt for row in found} == {p for p in ("heads", "tails") if not is_held_out(p)}


def test_about_a_sixteenth_is_held_out() -> None:
    share = sum(is_held_out(str(i)) for i in range(16_000)) / 16_000
    # 5 standard deviations of a binomial share at 1/16: sqrt(p * (1 - p) / 16,000) = 0.0019.
    assert abs(share - 1 / 16) < 0.0096


def test_word_problems_end_with_the_result_of_their_last_calculation() -> None:
    for row in word_problems.rows(3, 200, held_out=False):
        last = re.findall(r"= \$?(\d+)", row.answer)[-1]
        assert row.answer.endswith(f"#### {last}")


def test_every_calculation_of_a_word_problem_is_right() -> None:
    for row in word_problems.rows(4, 200, held_out=False):
        for left, sign, right, result in re.findall(r"(\d+) ([-+*/]) (\d+) = \$?(\d+)", row.answer):
            a, b = int(left), int(right)
            assert {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[sign] == int(result)


def test_functions_parse_and_begin_with_their_prompt() -> None:
    for row in functions.rows(3, 200, held_out=False):
        head = row.prompt.split("```python\n")[1].removesuffix("\n```")
        code = row.answer.removeprefix("```python\n").removesuffix("\n```")
        assert code.startswith(head + "\n")
        assert len(ast.parse(code).body) == 1


def test_no_loop_overwrites_the_argument() -> None:
    for row in functions.rows(3, 400, held_out=False):
        tree = ast.parse(row.answer.removeprefix("```python\n").removesuffix("\n```"))
        arguments = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.comprehension)]
        assert not arguments & {ast.unparse(loop.target) for loop in loops}


def test_json_answers_parse() -> None:
    answers = [json.loads(copying.as_json(random.Random(seed))[1]) for seed in range(20)]
    assert all(people[0].keys() == {"name", "age", "job", "town"} for people in answers)


def test_a_quoted_sentence_stands_in_the_passage() -> None:
    for seed in range(20):
        prompt, answer = copying.quoting(random.Random(seed))
        assert answer.split('"')[1] in prompt


def test_renaming_leaves_none_of_the_old_name_behind() -> None:
    for seed in range(50):
        prompt, answer = copying.rename(random.Random(seed))
        old = prompt.split("`")[1]
        assert not re.search(rf"\b{old}\b", answer)


def test_chat_answers_are_short_and_filled_in() -> None:
    for row in chat.rows(3, 200, held_out=False):
        assert 20 < len(row.answer) < 600
        assert "{" not in row.prompt + row.answer


def test_filler_has_the_asked_length_and_keeps_the_question_last() -> None:
    rows = word_problems.rows(1, 50, held_out=False)
    long = with_filler(rows[0], rows[1:], 2000, random.Random(0))
    assert long.prompt.endswith(SEPARATOR + rows[0].prompt)
    assert 1800 < len(long.prompt) - len(rows[0].prompt) <= 2002
    assert long.answer == rows[0].answer
