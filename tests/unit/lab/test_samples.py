"""The shipped prompt samples are what the generators give, held out and without doubles."""

import json
from pathlib import Path

import pytest

from dflash_bench.assets import folder
from dflash_bench.lab import samples
from dflash_bench.lab.corpus.row import is_held_out

NAMES = pytest.mark.parametrize("name", samples.SOURCES)


def lines(path: Path) -> list[dict[str, str]]:
    """Read JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@NAMES
def test_a_sample_is_64_distinct_held_out_prompts(name: str) -> None:
    rows = lines(folder("workloads") / "prompts" / f"sample-{name}.jsonl")
    assert len({row["id"] for row in rows}) == len({row["prompt"] for row in rows}) == 64
    assert all(is_held_out(row["prompt"]) and row["answer"] for row in rows)


@NAMES
def test_filler_rows_are_of_the_training_side(name: str) -> None:
    rows = lines(folder("workloads") / "prompts" / f"sample-{name}.train.jsonl")
    assert len(rows) == 200
    assert not any(is_held_out(row["prompt"]) for row in rows)


def test_writing_them_again_changes_nothing(tmp_path: Path) -> None:
    for path in samples.write(tmp_path):
        shipped = folder("workloads") / "prompts" / path.name
        assert path.read_bytes() == shipped.read_bytes()
