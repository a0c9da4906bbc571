"""Tasks whose answer copies much of the prompt: what prompt lookup is good at, and a model must learn too."""

from __future__ import annotations

import json
import random
import re

from dflash_bench.lab.corpus.functions import LISTS, SUMS, function
from dflash_bench.lab.corpus.row import Row, draw
from dflash_bench.lab.corpus.stdlib import ANSWER
from dflash_bench.lab.corpus.vocabulary import ITEMS, JOBS, NAMES, QUALITIES, TOWNS

FAMILY = "copying"
FRESH = (
    "rows", "counts", "series", "entries", "samples", "points", "batch", "stock", "amounts", "lines", "final", "sums",
    "found",
)  # fmt: skip
FACTS = (
    "is a {job} and lives in {town}.",
    "moved from {town} and works as a {job}.",
    "keeps {n} {thing} in a box.",
    "sold {n} {thing} in {town}.",
)
IDENTIFIER = re.compile(rf"\b({'|'.join([*LISTS, *SUMS, 'text', 'n'])})\b")


def rename(rng: random.Random) -> tuple[str, str]:
    """Rename one variable of a function and give the function back."""
    _, code = function(rng)
    old = rng.choice(sorted(set(IDENTIFIER.findall(code))))
    new = rng.choice(FRESH)
    renamed = re.sub(rf"\b{old}\b", new, code)
    prompt = f"Rename `{old}` to `{new}` in this code:\n{ANSWER.format(code=code)}"
    return prompt, ANSWER.format(code=renamed)


def things(rng: random.Random, low: int, high: int) -> list[str]:
    """Return a few different things, such as `wet stamps`."""
    pairs = [f"{word} {item}" for word in rng.sample(QUALITIES, 8) for item in rng.sample(ITEMS, 3)]
    return rng.sample(pairs, rng.randint(low, high))


def bullets(rng: random.Random) -> tuple[str, str]:
    """Turn a sentence into a list."""
    found = things(rng, 3, 7)
    mark = rng.choice(["bullet points", "a numbered list"])
    lines = [f"- {x}" if mark == "bullet points" else f"{i}. {x}" for i, x in enumerate(found, 1)]
    return f"Turn this into {mark}: {', '.join(found)}", "\n".join(lines)


def as_json(rng: random.Random) -> tuple[str, str]:
    """Turn short records into JSON."""
    people = [
        {"name": n, "age": rng.randint(18, 80), "job": rng.choice(JOBS), "town": rng.choice(TOWNS)}
        for n in rng.sample(NAMES, rng.randint(2, 4))
    ]
    text = "\n".join(f"{p['name']}, {p['age']}, {p['job']}, {p['town']}" for p in people)
    return f"Write these rows (name, age, job, town) as JSON:\n{text}", json.dumps(people, indent=1)


def quoting(rng: random.Random) -> tuple[str, str]:
    """Answer from a passage by quoting the sentence that tells it."""
    names = rng.sample(NAMES, rng.randint(3, 6))
    facts = []
    for name in names:
        thing = things(rng, 1, 1)[0]
        fact = rng.choice(FACTS)
        job, town, number = rng.choice(JOBS), rng.choice(TOWNS), rng.randint(2, 90)
        facts.append(f"{name} " + fact.format(job=job, town=town, n=number, thing=thing))
    asked = rng.randrange(len(names))
    prompt = f"Read the text and quote the sentence about {names[asked]}.\n\n{' '.join(facts)}"
    return prompt, f'The text says: "{facts[asked]}"'


def endings(rng: random.Random) -> tuple[str, str]:
    """Repeat lines with a small change."""
    found = things(rng, 3, 6)
    end = rng.choice([";", ".", "!", " (new)", ": ok"])
    prompt = "\n".join([f"Repeat each line and put `{end}` at its end:", *found])
    return prompt, "\n".join(line + end for line in found)


def make(rng: random.Random) -> tuple[str, str]:
    """Return one (prompt, answer)."""
    return rng.choice([rename, rename, bullets, as_json, quoting, endings])(rng)


def rows(seed: int, count: int, *, held_out: bool) -> list[Row]:
    """Draw `count` tasks of one side of the split."""
    return draw(FAMILY, make, seed=seed, count=count, held_out=held_out)
