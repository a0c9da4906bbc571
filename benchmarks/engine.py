"""How fast the engine is: `python benchmarks/engine.py [--models small,mid] [--repeats N] [--clock wall|cpu]`.

The same weights and prompts, greedy, fp32, one thread, in one process. Both sides of a row take turns, and
who begins alternates; the ratio is that of their seconds per token in one turn: its median over the turns,
and their quartiles. Above 1 ours is faster. All time counts, prefill and draft prefill included.
`small` is the shipped pair; `mid` has random weights, so its acceptance says nothing: look at its steps.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM

from benchmarks.engine_contests import Row, contests, hold
from benchmarks.engine_memory import MemoryRow, memory
from benchmarks.engine_models import BUILDERS
from benchmarks.engine_phases import Split, splits
from dflash_bench.engine.target import Target

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
Column = tuple[str, Callable[[Any], str]]
"""A heading, and how a row's cell is written."""


def main() -> None:
    """Measure, print as it comes, and write the JSON if one is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--models", default="small,mid", help=f"of {', '.join(BUILDERS)}")
    parser.add_argument("--repeats", type=int, default=5, help="turns of each side")
    parser.add_argument(
        "--clock",
        choices=CLOCKS,
        default="wall",
        help="cpu: the process's own, where others run too",
    )
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    options = parser.parse_args()
    if unknown := set(options.models.split(",")) - set(BUILDERS):
        parser.error(f"--models: there is no {', '.join(sorted(unknown))}.")
    if options.repeats < 2:
        parser.error("--repeats: a spread needs at least 2.")
    clock = CLOCKS[options.clock]
    torch.set_num_threads(1)
    console, found = Console(width=150), list[Any]()
    for name in options.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            models = BUILDERS[name](Path(folder))
            target = Target.load(models.target)
            model = AutoModelForCausalLM.from_pretrained(models.target, dtype=target.dtype)
            rows = [
                _told(hold(each, options.repeats, clock))
                for each in contests(models, target, model)
            ]
            console.print(table(f"{name}: turns of two", rows, CONTEST))
            phases = list(splits(models, target, clock))
            console.print(table(f"{name}: mean step by phase", phases, PHASES))
            caches = list(memory(models))
            console.print(table(f"{name}: keys and values, MB", caches, MEMORY))
            found += [*rows, *phases, *caches]
    if options.json:
        kinds: dict[str, type[Any]] = {"contests": Row, "phases": Split, "memory": MemoryRow}
        figures = {
            name: [asdict(each) for each in found if isinstance(each, kind)]
            for name, kind in kinds.items()
        }
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def table(title: str, rows: Iterable[Any], columns: tuple[Column, ...]) -> Table:
    """Lay out `rows`, one cell of each column for each."""
    laid = Table(title=title, title_justify="left")
    for heading, _ in columns:
        laid.add_column(
            heading, justify="left" if heading in ("what", "against", "note") else "right"
        )
    for row in rows:
        laid.add_row(*(write(row) for _, write in columns))
    return laid


def number(value: float | None, digits: int = 2) -> str:
    """Write a number; what was not measured is empty."""
    return "" if value is None else f"{value:.{digits}f}"


def megabytes(value: int) -> str:
    """Write bytes in millions."""
    return f"{value / 1e6:.1f}"


def _told(row: Row) -> Row:
    speeds = f"{number(row.ours_tok_s, 1) or '-'} and {number(row.theirs_tok_s, 1) or '-'} tok/s"
    told = (
        f"{row.model}: {row.what} against {row.against}: {number(row.ratio) or row.note}, {speeds}"
    )
    print(told, file=sys.stderr)
    return row


CONTEST: tuple[Column, ...] = (
    ("what", lambda row: row.what),
    ("against", lambda row: row.against),
    ("ratio", lambda row: number(row.ratio)),
    ("quartiles", lambda row: "-".join(map(number, (row.ratio_low, row.ratio_high))).strip("-")),
    ("tok/s ours", lambda row: number(row.ours_tok_s, 1)),
    ("theirs", lambda row: number(row.theirs_tok_s, 1)),
    ("ms/step ours", lambda row: number(row.ours_step_ms)),
    ("theirs", lambda row: number(row.theirs_step_ms)),
    ("tau ours", lambda row: number(row.ours_tau)),
    ("theirs", lambda row: number(row.theirs_tau)),
    ("same text", lambda row: {None: "", True: "yes", False: "NO"}[row.identical]),
    ("note", lambda row: row.note),
)
PHASES: tuple[Column, ...] = (
    ("what", lambda row: row.what),
    ("batch", lambda row: str(row.batch_size)),
    ("steps", lambda row: str(row.steps)),
    ("draft ms", lambda row: number(row.draft_ms, 3)),
    ("verify ms", lambda row: number(row.verify_ms, 3)),
    ("commit ms", lambda row: number(row.commit_ms, 3)),
    ("else ms", lambda row: number(row.other_ms, 3)),
    ("else", lambda row: f"{row.other_share:.1%}"),
)
MEMORY: tuple[Column, ...] = (
    ("batch", lambda row: str(row.batch_size)),
    ("context", lambda row: str(row.context)),
    ("target by shape", lambda row: megabytes(row.target_formula)),
    ("its tensors", lambda row: megabytes(row.target_tensors)),
    ("drafter by shape", lambda row: megabytes(row.drafter_formula)),
    ("its tensors", lambda row: megabytes(row.drafter_tensors)),
    ("process, reserved", lambda row: megabytes(row.reserve_rss)),
    ("process, after answers", lambda row: megabytes(row.run_rss)),
)

if __name__ == "__main__":
    main()
