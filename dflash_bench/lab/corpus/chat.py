"""Short everyday requests, composed from our own sentences: notes, steps, explanations, summaries, choices."""

from __future__ import annotations

import random

from dflash_bench.lab.corpus.everyday import (
    DEEDS,
    EVENTS,
    GIFTS,
    HOW_TO,
    REASONS,
    ROLES,
    TOPICS,
    WEATHER,
)
from dflash_bench.lab.corpus.row import Row, draw
from dflash_bench.lab.corpus.vocabulary import DAYS, NAMES

FAMILY = "chat"


def note(rng: random.Random) -> tuple[str, str]:
    """Write a short message."""
    role, event, day, reason, name = (rng.choice(x) for x in (ROLES, EVENTS, DAYS, REASONS, NAMES))
    prompt = rng.choice(
        [
            "Write a short note to my {r} {n}: I cannot come to {e} on {d} because {w}.",
            "Please write to {n}, my {r}, that {w} and I will miss {e} on {d}.",
        ]
    )
    opening, close = (
        rng.choice(["Dear", "Hello", "Hi"]),
        rng.choice(["Best wishes", "See you soon", "Many thanks"]),
    )
    answer = (
        f"{opening} {name},\n\nI am sorry, but I cannot come to {event} on {day} because {reason}. "
        f"I hope that you have a good time, and I would like to see you another day.\n\n{close}"
    )
    return prompt.format(r=role, n=name, e=event, d=day, w=reason), answer


def steps(rng: random.Random) -> tuple[str, str]:
    """List the steps of a task."""
    task, lines = rng.choice(list(HOW_TO.items()))
    count, name = rng.randint(3, 5), rng.choice(NAMES)
    asked = rng.choice(
        [
            "How do I {t}? Give {c} steps.",
            "List {c} steps to {t}.",
            "My friend {n} asks how to {t}. Answer in {c} steps.",
        ]
    )
    numbered = [f"{i}. {line}" for i, line in enumerate(lines[:count], 1)]
    answer = "\n".join([f"Here is how to {task}:", *numbered])
    return asked.format(t=task, c=count, n=name), answer


def explanation(rng: random.Random) -> tuple[str, str]:
    """Explain a thing to somebody."""
    topic, sentences = rng.choice(list(TOPICS.items()))
    name, age = rng.choice(NAMES), rng.randint(6, 15)
    asked = rng.choice(
        [
            "Explain {t} to {n}, who is {a} years old.",
            "{n} is {a} and wants to know about {t}. What do I say?",
            "Explain {t} in a few words for a child of {a}, {n}.",
        ]
    )
    answer = " ".join([*sentences, f"I hope this helps {name} to understand {topic}."])
    return asked.format(t=topic, n=name, a=age), answer


def summary(rng: random.Random) -> tuple[str, str]:
    """Summarise a small diary."""
    name = rng.choice(NAMES)
    days = rng.sample(DAYS, rng.randint(2, 4))
    entries = [
        (day, rng.choice(WEATHER), deed)
        for day, deed in zip(days, rng.sample(DEEDS, len(days)), strict=True)
    ]
    text = " ".join(
        f"On {d} it was {w}. {name} {deed} and then went home." for d, w, deed in entries
    )
    deeds = ", ".join(f"{deed} on {day}" for day, _, deed in entries)
    return f"Summarise in one sentence: {text}", f"{name} {deeds}."


def present(rng: random.Random) -> tuple[str, str]:
    """Suggest a present."""
    whom, gifts = rng.choice(list(GIFTS.items()))
    name, price, role = rng.choice(NAMES), rng.randint(2, 20) * 5, rng.choice(ROLES)
    prompt = f"I need a present for {name}, a {role} {whom}. I can spend ${price}."
    answer = (
        f"For a {role} {whom}, you could choose {gifts[0]} or {gifts[1]}. "
        f"Both can be found for less than ${price}. Add a short card, and {name} will be happy."
    )
    return prompt, answer


def make(rng: random.Random) -> tuple[str, str]:
    """Return one (prompt, answer)."""
    return rng.choice([note, steps, explanation, summary, present])(rng)


def rows(seed: int, count: int, *, held_out: bool) -> list[Row]:
    """Draw `count` requests of one side of the split."""
    return draw(FAMILY, make, seed=seed, count=count, held_out=held_out)
