"""The target's own outputs: what a drafter is trained on.

A drafter has to guess what the target says, not what the corpus says, and under the sampling that it
will meet: half of the prompts are answered greedily, half at temperature 1. All prompts are of the
training side; some have long filler in front.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from transformers import PreTrainedTokenizerFast

from dflash_bench.engine.loop import Admitted, Step, generate
from dflash_bench.engine.methods.ar import AutoregressiveDrafter
from dflash_bench.engine.request import Request
from dflash_bench.engine.sampling import Sampling
from dflash_bench.engine.target import Target
from dflash_bench.lab.corpus.filler import with_filler
from dflash_bench.lab.corpus.row import Row
from dflash_bench.lab.tokenizer import encode, prompt_text

SEED = 21
BATCH_SIZE = 96
MAX_NEW_TOKENS = 256
NUM_PROMPTS = {
    "gsm8k": 1200,
    "stdlib": 800,
    "word_problems": 2600,
    "functions": 2600,
    "copying": 1200,
    "chat": 1200,
}
FILLER_SHARE = 0.1
FILLER_CHARS = (300, 3200)
TEMPERATURES = (0.0, 1.0)
Progress = Callable[[str], None]


class Output(NamedTuple):
    """What the target answered, as token ids; the end-of-turn token is one of `output` unless it was cut."""

    family: str
    temperature: float
    prompt: list[int]
    output: list[int]


def choose_prompts(
    rows: dict[str, list[Row]], num_prompts: dict[str, int], seed: int = SEED
) -> list[Row]:
    """Choose the prompts, a seeded sample of every family, a tenth of them with filler in front."""
    rng = random.Random(f"outputs/{seed}")
    chosen = [
        row for family, count in num_prompts.items() for row in rng.sample(rows[family], count)
    ]
    rng.shuffle(chosen)
    return [
        with_filler(row, rows[row.family], rng.randint(*FILLER_CHARS), rng)
        if rng.random() < FILLER_SHARE
        else row
        for row in chosen
    ]


def answer(
    target: Target,
    tokenizer: PreTrainedTokenizerFast,
    rows: Sequence[Row],
    temperature: float,
    *,
    max_new_tokens: int = MAX_NEW_TOKENS,
    progress: Progress,
) -> list[Output]:
    """Let the target answer every row, in batches, one token at a time."""
    prompts = [encode(tokenizer, prompt_text(row.prompt)) for row in rows]
    requests = to_requests(prompts, target.eos_ids, max_new_tokens)
    outputs: list[list[int]] = [[] for _ in rows]
    sampling = Sampling(temperature=temperature, seed=SEED)
    num_done = 0
    for event in generate(
        target, AutoregressiveDrafter(), requests, batch_size=BATCH_SIZE, sampling=sampling
    ):
        for request_id, tokens, finished in arrivals(event):
            outputs[int(request_id)] += tokens
            num_done += finished
            if finished and num_done % 100 == 0:
                progress(f"outputs at temperature {temperature:g}: {num_done}/{len(rows)}")
    return [
        Output(row.family, temperature, prompt, output)
        for row, prompt, output in zip(rows, prompts, outputs, strict=True)
    ]


def to_requests(
    prompts: Sequence[Sequence[int]], stop_ids: frozenset[int], max_new_tokens: int
) -> list[Request]:
    """Number the prompts: the index is the request's id and the counter of its noise."""
    return [
        Request(str(i), tuple(prompt), max_new_tokens, stop_ids, key=i)
        for i, prompt in enumerate(prompts)
    ]


def arrivals(event: Admitted | Step) -> list[tuple[str, tuple[int, ...], bool]]:
    """Return (request id, its new tokens, whether it ended) for every request that an event moved."""
    if isinstance(event, Admitted):
        return [(event.request_id, (event.first_token,), event.finished is not None)]
    return [(row.request_id, row.tokens, row.finished is not None) for row in event.rows]


def generate_outputs(
    target: Target,
    tokenizer: PreTrainedTokenizerFast,
    rows: dict[str, list[Row]],
    *,
    progress: Progress,
) -> list[Output]:
    """Answer the chosen prompts: every other one greedily, the rest at temperature 1."""
    chosen = choose_prompts(rows, NUM_PROMPTS)
    return [
        output
        for i, temperature in enumerate(TEMPERATURES)
        for output in answer(
            target, tokenizer, chosen[i :: len(TEMPERATURES)], temperature, progress=progress
        )
    ]


def write(outputs: Sequence[Output], path: Path) -> None:
    """Write outputs as JSON lines, in one move."""
    part = path.with_suffix(".part")
    part.write_text("".join(json.dumps(output._asdict()) + "\n" for output in outputs))
    part.replace(path)


def read(path: Path) -> list[Output]:
    """Read what `write` wrote."""
    with path.open(encoding="utf-8") as lines:
        return [Output(**json.loads(line)) for line in lines]
