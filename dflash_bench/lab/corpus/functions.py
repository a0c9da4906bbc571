"""Generated small Python functions: eighteen kinds with varied names, docstrings and type hints.

A kind is a template of head and body whose capital placeholders are filled per row, so that thousands of different
prompts have answers that a small model can learn to get right.
"""

from __future__ import annotations

import random

from dflash_bench.lab.corpus.function_templates import TEMPLATES, Template
from dflash_bench.lab.corpus.row import Row, draw
from dflash_bench.lab.corpus.stdlib import ANSWER, PROMPT

FAMILY = "functions"
LISTS = ["numbers", "values", "items", "data", "nums", "xs", "elements", "scores"]
LOOPS = ["x", "value", "item", "n", "element", "v"]
SUMS = ["total", "result", "acc", "out", "answer"]


def head_of(rng: random.Random, template: Template, name: str) -> str:
    """Write signature and docstring: hints or none, one or several lines, a note or none."""
    typed = rng.random() < 0.5
    parameter = template.parameters if typed else template.parameters.split(":")[0]
    arrow = f" -> {template.returns}" if typed else ""
    quotes = rng.choice(['"""', '"""', "'''"])
    text = rng.choice(template.texts)
    note = rng.choice(
        ["", "", "The input is not changed.", "Used by the report.", "Runs in one pass."]
    )
    lines = [f"def {name}({parameter}){arrow}:"]
    if note or rng.random() < 0.3:
        lines += [f"    {quotes}{text}", *([f"    {note}"] if note else []), f"    {quotes}"]
    else:
        lines.append(f"    {quotes}{text}{quotes}")
    return "\n".join(lines)


def function(rng: random.Random) -> tuple[str, str]:
    """Return (head, whole code) of one generated function."""
    template = rng.choice(TEMPLATES)
    k = rng.randint(2, 20)
    base = rng.choice(template.names.split())
    name = rng.choice([base, base, f"{base}_{k}", f"my_{base}", f"get_{base}"])
    head = head_of(rng, template, name)
    body = "\n".join("    " + line for line in template.body.splitlines())
    names = {
        "LIST": rng.choice(LISTS),
        "LOOP": rng.choice(LOOPS),
        "SUM": rng.choice(SUMS),
        "K": str(k),
    }
    if names["LOOP"] == template.parameters.split(":")[0]:
        names["LOOP"] = "i"  # or the loop would overwrite the argument
    code = f"{head}\n{body}"
    for placeholder, value in names.items():
        head, code = head.replace(placeholder, value), code.replace(placeholder, value)
    return head, code


def make(rng: random.Random) -> tuple[str, str]:
    """Return one (prompt, answer)."""
    head, code = function(rng)
    return PROMPT.format(head=head), ANSWER.format(code=code)


def rows(seed: int, count: int, *, held_out: bool) -> list[Row]:
    """Draw `count` functions of one side of the split."""
    return draw(FAMILY, make, seed=seed, count=count, held_out=held_out)
