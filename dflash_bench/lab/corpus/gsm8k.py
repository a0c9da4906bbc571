"""Grade-school maths as published: the GSM8K training split, never its test split.

Source: openai/grade-school-math, `train.jsonl` (MIT licence). The answers keep their own style; only the
calculator marks `<<48/2=24>>` are taken out, because no calculator stands behind them here.
"""

from __future__ import annotations

import re
from pathlib import Path

from dflash_bench.lab.corpus.row import Row, is_held_out
from dflash_bench.workloads.source import source_rows
from dflash_bench.workloads.template import field_text
from dflash_bench.workloads.workload import load_workload

FAMILY = "gsm8k"
PROMPT = '{question}\nThink step by step and end with "#### " and the number.'
CALCULATOR_MARK = re.compile(r"<<[^>]*>>")


def to_row(question: str, answer: str) -> Row:
    """Turn one published pair into a row: the workload's template, the answer without calculator marks."""
    return Row(
        FAMILY, PROMPT.format(question=question.strip()), CALCULATOR_MARK.sub("", answer).strip()
    )


def load(data_dir: Path | None = None, *, held_out: bool) -> list[Row]:
    """Read the training split, where the workload `gsm8k` finds its filler, and return one side of it.

    That is `data_dir`, else the folder that DFLASH_BENCH_DATA names, else the hub at the workload's revision. Raises
    ConfigError for a bad file, InfrastructureError where only the hub is left and does not answer.
    """
    published = load_workload(FAMILY).filler
    assert published is not None  # our own YAML
    found = source_rows(published, None if data_dir is None else str(data_dir))
    rows = [to_row(field_text(row, "question"), field_text(row, "answer")) for row in found]
    return [row for row in rows if is_held_out(row.prompt) == held_out]
