"""Generated word problems with small numbers: ten situations, several ways to write the solution down.

A situation yields its question and its steps as (sentence, calculation) pairs; a style joins them. All text is our own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from dflash_bench.lab.corpus.gsm8k import PROMPT
from dflash_bench.lab.corpus.row import Row, draw
from dflash_bench.lab.corpus.vocabulary import ITEMS, NAMES, PLACES

FAMILY = "word_problems"


class Problem(NamedTuple):
    """A question, its steps as (sentence, calculation), and the result."""

    question: str
    steps: list[tuple[str, str]]
    result: int


def buying(rng: random.Random) -> Problem:
    name, item, place = rng.choice(NAMES), rng.choice(ITEMS), rng.choice(PLACES)
    count, price = rng.randint(2, 12), rng.randint(2, 9)
    paid = count * price + rng.randint(1, 30)
    question = (
        f"{name} buys {count} {item} at the {place}. Each costs ${price}. "
        f"{name} pays with ${paid}. How much change does {name} get?"
    )
    return Problem(
        question,
        [
            (f"The {item} cost", f"{count} * {price} = ${count * price}"),
            (f"{name} gets back", f"{paid} - {count * price} = ${paid - count * price}"),
        ],
        paid - count * price,
    )


def sharing(rng: random.Random) -> Problem:
    name, item = rng.choice(NAMES), rng.choice(ITEMS)
    friends, each, eaten = rng.randint(2, 9), rng.randint(2, 9), rng.randint(1, 12)
    total = friends * each + eaten
    question = (
        f"{name} has {total} {item}. {name} keeps {eaten} and shares the rest equally among {friends} friends. "
        f"How many {item} does each friend get?"
    )
    return Problem(
        question,
        [
            (f"{name} gives away", f"{total} - {eaten} = {total - eaten} {item}"),
            ("Each friend gets", f"{total - eaten} / {friends} = {each} {item}"),
        ],
        each,
    )


def collecting(rng: random.Random) -> Problem:
    (first, second), item = rng.sample(NAMES, 2), rng.choice(ITEMS)
    start, times = rng.randint(3, 15), rng.randint(2, 4)
    word = {2: "twice", 3: "three times", 4: "four times"}[times]
    question = (
        f"{first} has {start} {item}. {second} has {word} as many {item} as {first}. "
        f"How many {item} do they have altogether?"
    )
    return Problem(
        question,
        [
            (f"{second} has", f"{start} * {times} = {start * times} {item}"),
            ("Together they have", f"{start} + {start * times} = {start + start * times} {item}"),
        ],
        start + start * times,
    )


def working(rng: random.Random) -> Problem:
    name = rng.choice(NAMES)
    wage, hours, days = rng.randint(5, 15), rng.randint(2, 8), rng.randint(2, 6)
    question = (
        f"{name} earns ${wage} an hour and works {hours} hours a day. "
        f"How much does {name} earn in {days} days?"
    )
    return Problem(
        question,
        [
            (f"{name} works", f"{hours} * {days} = {hours * days} hours"),
            (f"{name} earns", f"{hours * days} * {wage} = ${hours * days * wage}"),
        ],
        hours * days * wage,
    )


def packing(rng: random.Random) -> Problem:
    name, item = rng.choice(NAMES), rng.choice(ITEMS)
    boxes, each, more = rng.randint(2, 9), rng.randint(3, 12), rng.randint(1, 20)
    question = (
        f"{name} packs {each} {item} into each of {boxes} boxes and has {more} {item} left. "
        f"How many {item} did {name} have at the start?"
    )
    return Problem(
        question,
        [
            ("The boxes hold", f"{boxes} * {each} = {boxes * each} {item}"),
            (f"At the start {name} had", f"{boxes * each} + {more} = {boxes * each + more} {item}"),
        ],
        boxes * each + more,
    )


def ages(rng: random.Random) -> Problem:
    first, second = rng.sample(NAMES, 2)
    age, older, years = rng.randint(4, 20), rng.randint(1, 9), rng.randint(2, 10)
    question = (
        f"{first} is {age} years old. {second} is {older} years older than {first}. "
        f"How old will {second} be in {years} years?"
    )
    return Problem(
        question,
        [
            (f"{second} is", f"{age} + {older} = {age + older} years old"),
            (
                f"In {years} years {second} will be",
                f"{age + older} + {years} = {age + older + years} years old",
            ),
        ],
        age + older + years,
    )


def travelling(rng: random.Random) -> Problem:
    name = rng.choice(NAMES)
    speed, hours, rest = (
        rng.choice([10, 12, 15, 20, 30, 40, 50, 60]),
        rng.randint(2, 6),
        rng.randint(5, 40),
    )
    question = (
        f"{name} drives {speed} miles an hour for {hours} hours and then {rest} miles more. "
        f"How many miles does {name} drive in all?"
    )
    return Problem(
        question,
        [
            (f"In {hours} hours {name} drives", f"{speed} * {hours} = {speed * hours} miles"),
            (f"In all {name} drives", f"{speed * hours} + {rest} = {speed * hours + rest} miles"),
        ],
        speed * hours + rest,
    )


def saving(rng: random.Random) -> Problem:
    name, item = (
        rng.choice(NAMES),
        rng.choice(["bike", "guitar", "camera", "tent", "desk", "watch"]),
    )
    week, weeks, start = rng.randint(3, 12), rng.randint(2, 9), rng.randint(5, 30)
    price = start + week * weeks
    question = (
        f"A {item} costs ${price}. {name} has ${start} and saves ${week} every week. "
        f"In how many weeks can {name} buy the {item}?"
    )
    return Problem(
        question,
        [
            (f"{name} still needs", f"{price} - {start} = ${price - start}"),
            ("This takes", f"{price - start} / {week} = {weeks} weeks"),
        ],
        weeks,
    )


def losing(rng: random.Random) -> Problem:
    name, item = rng.choice(NAMES), rng.choice(ITEMS)
    start, lost, found = rng.randint(15, 40), rng.randint(2, 14), rng.randint(2, 14)
    question = (
        f"{name} had {start} {item}, lost {lost} of them and then found {found} more. "
        f"How many {item} does {name} have now?"
    )
    return Problem(
        question,
        [
            (f"After the loss {name} had", f"{start} - {lost} = {start - lost} {item}"),
            (f"Now {name} has", f"{start - lost} + {found} = {start - lost + found} {item}"),
        ],
        start - lost + found,
    )


def halving(rng: random.Random) -> Problem:
    (first, second), item = rng.sample(NAMES, 2), rng.choice(ITEMS)
    half, more = rng.randint(3, 20), rng.randint(2, 12)
    question = (
        f"{first} made {2 * half} {item}. {second} made half as many, "
        f"and then {more} more. How many {item} did {second} make?"
    )
    return Problem(
        question,
        [
            (f"Half of {2 * half} is", f"{2 * half} / 2 = {half}"),
            (f"{second} made", f"{half} + {more} = {half + more} {item}"),
        ],
        half + more,
    )


SITUATIONS: tuple[Callable[[random.Random], Problem], ...] = (
    buying,
    sharing,
    collecting,
    working,
    packing,
    ages,
    travelling,
    saving,
    losing,
    halving,
)


def solution(rng: random.Random, steps: list[tuple[str, str]], result: int) -> str:
    """Write the steps in one of four styles, ending as GSM8K does."""
    style = rng.randrange(4)
    if style == 0:
        lines = [f"{sentence} {calculation}." for sentence, calculation in steps]
    elif style == 1:
        lines = [f"Step {i}: {calculation}" for i, (_, calculation) in enumerate(steps, 1)]
    elif style == 2:
        lines = [
            f"{i}. {sentence} {calculation}." for i, (sentence, calculation) in enumerate(steps, 1)
        ]
    else:
        lines = [
            "Let us work it out.",
            *(f"{sentence} {calculation}." for sentence, calculation in steps),
        ]
    return "\n".join([*lines, f"#### {result}"])


def make(rng: random.Random) -> tuple[str, str]:
    """Return one (prompt, answer)."""
    question, steps, result = rng.choice(SITUATIONS)(rng)
    return PROMPT.format(question=question), solution(rng, steps, result)


def rows(seed: int, count: int, *, held_out: bool) -> list[Row]:
    """Draw `count` problems of one side of the split."""
    return draw(FAMILY, make, seed=seed, count=count, held_out=held_out)
