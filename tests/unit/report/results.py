"""Made-up but plausible results, in the shape of a results folder's JSON files: what a report is tested on.

A speedup falls with the batch and has a best block, so that the default run has cells that help, hurt and prove
nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dflash_bench.plan import Cell, Plan, Unsupported, make_plan
from dflash_bench.report.model import Report, build_report
from dflash_bench.spec import Spec

DECAY = {"sample-math": 0.6, "sample-code": 0.92}


@dataclass
class Result:
    """What a results folder holds, open to be changed by a test."""

    manifest: dict[str, Any]
    plan: Plan
    cells: list[dict[str, Any]]
    verdicts: dict[str, Any] = field(default_factory=dict)

    @property
    def report(self) -> Report:
        """The report of this result."""
        return build_report(self.manifest, self.plan, self.cells, self.verdicts)


def make_result(
    *,
    workloads: Sequence[str] = ("sample-math", "sample-code"),
    batches: Sequence[int] = (1, 4),
    blocks: Sequence[int] = (4, 8, 16),
    context_lengths: Sequence[int | None] = (None,),
    target: str = "lab",
    unsupported: Iterable[Unsupported] = (),
) -> Result:
    """Make up the result of a sweep over these axes. `workloads` may hold anything that a cell may be called."""
    spec = _spec(batches, blocks, context_lengths, target)
    plan = make_plan(spec)
    cells = {
        cell.id: cell
        for name in workloads
        for context in context_lengths
        for batch in batches
        for cell in [Cell(workload=name, batch_size=batch, context_length=context, temperature=0.0)]
    }
    plan = plan.model_copy(update={"cells": cells, "unsupported": tuple(unsupported), "visits": ()})
    entries = [
        _entry(cell, name, arm.block_size)
        for cell in cells.values()
        for name, arm in plan.arms.items()
    ]
    return Result(_manifest(spec, workloads), plan, entries, _verdicts(entries))


def _spec(
    batches: Sequence[int],
    blocks: Sequence[int],
    context_lengths: Sequence[int | None],
    target: str,
) -> Spec:
    return Spec.model_validate(
        {
            "name": "quickstart",
            "target": target,
            "arms": {"ar": {"method": "ar"}, "dflash": {"method": "dflash", "draft": "lab"}},
            "workloads": ["sample-math"],
            "sweep": {
                "block_size": list(blocks),
                "batch_size": list(batches),
                "context_length": list(context_lengths),
            },
        }
    )


def _entry(cell: Cell, arm: str, block: int | None) -> dict[str, Any]:
    """Make up one entry of cells.json; the baseline's has no ratios, as in a real one."""
    row_step = 0.0021 / cell.batch_size**0.4
    entry: dict[str, Any] = {
        "cell": cell.model_dump(),
        "cell_id": cell.id,
        "arm": arm,
        "method": "dflash" if block else "ar",
        "block_size": block,
        "num_draft_tokens": block - 1 if block else None,
        "runner": "reference",
        "simulated": False,
        "rounds": 4,
        "prompts": 32,
        "requests": 128,
        "failed": 0,
        "left_out": 0,
        "output_tokens": 12288,
        "occupancy": 1.0,
        "ttft_s": {"p50": 0.0123, "p90": 0.02, "p99": 0.03},
        "tpot_s": {"p50": row_step, "p90": row_step, "p99": row_step},
        "output_throughput_tok_s": 1 / row_step,
        "step_time": {"per_row_step_s": _phases(row_step, block, cell.batch_size)},
        "identities_broken": [],
        "lints": None,
        "verdict": None,
        "verdict_reason": None,
        "lossless": _lossless(0),
        "acceptance_length": {"value": 1.0, "ci_low": 1.0, "ci_high": 1.0, "per_request_mean": 1.0},
        "acceptance_rate_marginal": [],
        "acceptance_rate_conditional": [],
        **dict.fromkeys(("speedup", "decode_speedup", "break_even_tau", "pairs")),
    }
    return entry | _against_baseline(cell, row_step, block) if block else entry


def of_many_methods() -> Result:
    """Return the result of eight arms of five methods in one cell: a tree, one by `reject`, one lossy among them."""
    result = make_result(workloads=("gsm8k",), batches=(1,), blocks=tuple(range(2, 10)))
    told: list[tuple[str, str, dict[str, Any]]] = [
        ("dflash-b16", "dflash", {}),
        ("dflash-b8", "dflash", {}),
        ("eagle3", "eagle3", {}),
        ("eagle3-tree", "eagle3", {"settings": {"tree": {"top_k": 4, "depth": None}}}),
        ("medusa", "medusa", {"verify": "reject"}),
        ("medusa-typical", "medusa", {"verify": "typical"}),
        ("draft-model", "draft_model", {}),
        ("ngram", "ngram", {}),
    ]
    arms = {"ar": result.plan.arms["ar"]}
    named = zip(list(result.plan.arms.values())[1:], result.cells[1:], told, strict=True)
    for planned, entry, (name, method, changes) in named:
        arms[name] = planned.model_copy(update={"name": name, "method": method, **changes})
        entry |= {"arm": name, "method": method, **changes, "lossy": arms[name].lossy}
    result.plan = result.plan.model_copy(update={"arms": arms})
    by_name = {entry["arm"]: entry for entry in result.cells}
    by_name["medusa"]["lossless"] |= {
        "promise": "law",
        "compared": 0,
        "identical": 0,
        "wrong": None,
    }
    changed = {"promise": "nothing", "identical": 100, "different": 28, "wrong": None}
    by_name["medusa-typical"]["lossless"] |= changed
    result.verdicts["best_arms"] = {}
    return result


def _against_baseline(cell: Cell, row_step: float, block: int) -> dict[str, Any]:
    decay = DECAY.get(cell.workload, 0.8)
    marginal = [0.9 * decay**position for position in range(block - 1)]
    tau = 1 + sum(marginal)
    cost = sum(_phases(row_step, block, cell.batch_size).values()) / row_step
    decode, speedup = tau / cost, 0.97 * tau / cost
    verdict = "HELPS" if speedup > 1.15 else "HURTS" if speedup < 0.87 else "UNPROVEN"
    return {
        "acceptance_length": _ratio(tau) | {"per_request_mean": 0.98 * tau},
        "acceptance_rate_marginal": marginal,
        "acceptance_rate_conditional": [0.9, *[decay] * (block - 2)],
        "speedup": _ratio(speedup) | {"scope": "workload"},
        "decode_speedup": _ratio(decode),
        "break_even_tau": {"value": cost, "implied": False},
        "pairs": [speedup * factor for factor in (0.97, 1.02, 1.01, 0.99)],
        "tpot_s": {"p50": row_step / decode},
        "output_throughput_tok_s": speedup / row_step,
        "lossless": _lossless(128),
        "verdict": verdict,
        "verdict_reason": f"{speedup:.2f}x end to end, prefill included, at batch {cell.batch_size}.",
    }


def _phases(row_step: float, block: int | None, batch: int) -> dict[str, float]:
    if block is None:
        return {"draft": 0.0, "verify": 0.93 * row_step, "commit": 0.0, "other": 0.07 * row_step}
    dear = 1 + 0.03 * block * batch**1.25
    return {
        "prefill": 0.0008,
        "draft_prefill": 0.03 * row_step,
        "draft": 0.28 * row_step * dear**0.5,
        "verify": 0.93 * row_step * dear,
        "commit": 0.05 * row_step,
        "other": 0.08 * row_step,
    }


def _ratio(value: float) -> dict[str, float]:
    return {"value": value, "ci_low": 0.93 * value, "ci_high": 1.08 * value}


def _lossless(compared: int) -> dict[str, Any]:
    return {
        "compared": compared,
        "identical": compared,
        "near_tie": None,
        "wrong": 0 if compared else None,
        "different": 0,
        "first_divergences": [],
        "control_compared": 96,
        "control_identical": 96,
    }


def _manifest(spec: Spec, workloads: Sequence[str]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "name": spec.name,
        "simulated": False,
        "started": "2026-05-04T09:30:00+00:00",
        "argv": ["/home/someone/.venv/bin/dflash-bench", "sweep", "examples/quickstart.yaml"],
        "spec": spec.model_dump(mode="json"),
        "versions": {"python": "3.11.9", "dflash-bench": "0.1.0", "torch": "2.13.0", "vllm": None},
        "git": {"commit": "0123456789abcdef0123456789abcdef01234567", "dirty": False},
        "machine": {
            "cpu": "Some Processor @ 2.5 GHz",
            "cores": 2,
            "threads": 1,
            "memory_bytes": 8 * 2**30,
            "load_average": [1.25, 0.98, 0.7],
        },
        "runner": {"attention": "sdpa"},
        "models": {"target": {"id": "lab", "sha256": {"model.safetensors": "ab" * 32}}},
        "prompts": {
            name: {"prompts": 32, "left_out": 1, "sha256": "cd" * 32} for name in workloads
        },
        "files": {"spec": "ef" * 32},
    }


def _verdicts(entries: list[dict[str, Any]]) -> dict[str, Any]:
    compared = [entry for entry in entries if entry["verdict"]]
    best = max(compared, key=lambda entry: float(entry["speedup"]["value"]))
    sentence = f"DFlash helps here: {best['speedup']['value']:.2f}x at best, on {best['cell_id']}."
    return {
        "schema_version": 1,
        "headline": {"verdict": "HELPS", "sentence": sentence},
        "primary": best["cell_id"],
        "drift": {
            "first_wall_s_per_token": 0.0021,
            "last_wall_s_per_token": 0.00214,
            "wall_ratio": 1.019,
            "first_cpu_s_per_token": 0.002,
            "last_cpu_s_per_token": 0.002,
            "cpu_ratio": 1.001,
        },
        "best_arms": {best["cell_id"]: [best["arm"]]},
        "cells": [],
    }
