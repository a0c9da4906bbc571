"""Grade-school maths as published: the GSM8K training split, never its test split.

Source: openai/grade-school-math, `train.jsonl` (MIT licence). The answers keep their own style; only the
calculator marks `<<48/2=24>>` are taken out, because no calculator stands behind them here.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from dflash_bench.errors import InfrastructureError
from dflash_bench.lab.corpus.row import Row, is_held_out

FAMILY = "gsm8k"
PROMPT = '{question}\nThink step by step and end with "#### " and the number.'
FILE_NAME = "gsm8k_train.jsonl"
CALCULATOR_MARK = re.compile(r"<<[^>]*>>")


def to_row(question: str, answer: str) -> Row:
    """Turn one published pair into a row: the workload's template, the answer without calculator marks."""
    return Row(
        FAMILY, PROMPT.format(question=question.strip()), CALCULATOR_MARK.sub("", answer).strip()
    )


def default_data_dir() -> Path:
    """Return the folder with the authors' files: `DFLASH_BENCH_DATA`, else `shared/data` beside the checkout."""
    named = os.environ.get("DFLASH_BENCH_DATA")
    return Path(named) if named else Path(__file__).parents[4] / "shared" / "data"


def load(data_dir: Path | None = None, *, held_out: bool) -> list[Row]:
    """Read the training split and return one side of it.

    Raises InfrastructureError when the file is neither in `data_dir` nor obtainable from the hub.
    """
    path = (data_dir or default_data_dir()) / FILE_NAME
    pairs = read_pairs(path) if path.is_file() else download_pairs(path)
    rows = [to_row(question, answer) for question, answer in pairs]
    return [row for row in rows if is_held_out(row.prompt) == held_out]


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """Read (question, answer) from the authors' JSON lines."""
    with path.open(encoding="utf-8") as lines:
        parsed = [json.loads(line) for line in lines]
    return [(entry["question"], entry["answer"]) for entry in parsed]


def download_pairs(path: Path) -> list[tuple[str, str]]:
    """Fetch the same split from the hub through the `datasets` package."""
    try:
        from datasets import load_dataset  # optional, and only needed when the file is absent
    except ImportError as error:
        raise InfrastructureError(
            f"{path} does not exist and the package `datasets` is not installed.",
            remedy="Put gsm8k_train.jsonl into the folder that DFLASH_BENCH_DATA names, or install `datasets`.",
        ) from error
    try:
        split = load_dataset("openai/gsm8k", "main", split="train")
    except (OSError, ConnectionError, ValueError) as error:
        raise InfrastructureError(
            f"{path} does not exist and openai/gsm8k could not be fetched from the hub: {error}",
            remedy="Put gsm8k_train.jsonl into the folder that DFLASH_BENCH_DATA names.",
        ) from error
    return [(entry["question"], entry["answer"]) for entry in split]
