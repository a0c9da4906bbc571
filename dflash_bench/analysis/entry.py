"""One entry of `cells.json`: everything that is told about one arm in one cell.

The names and the shape are fixed (scripts rely on them); keys may be added. Null is "not measured", never 0.
"""

from typing import Any

import numpy as np

from dflash_bench.analysis import metrics
from dflash_bench.analysis.backend import PER_VISIT, cached_tokens, summed_state
from dflash_bench.analysis.comparison import Comparison
from dflash_bench.analysis.frames import Sample
from dflash_bench.analysis.identities import (
    broken_decomposition,
    broken_positions,
    broken_records,
)
from dflash_bench.analysis.repetition import repetition
from dflash_bench.analysis.stats import LogRatio, geometric_mean, per_prompt, per_round
from dflash_bench.analysis.steps import NOT_TOLD
from dflash_bench.analysis.tally import Tally, length, tally
from dflash_bench.analysis.tally import positions as positions_of
from dflash_bench.plan import Plan, PlannedArm


def identity(plan: Plan, cell_id: str, arm_name: str) -> dict[str, Any]:
    """Return what an entry is about, known before anything ran."""
    cell, arm = plan.cells[cell_id], plan.arms[arm_name]
    return {
        "cell": cell.axes,
        "cell_id": cell_id,
        "arm": arm_name,
        "method": arm.method,
        "block_size": arm.block_size,
        "num_draft_tokens": arm.num_draft_tokens,
        "verify": arm.verify,
        "lossy": arm.lossy,
        "settings": arm.settings,
        "runner": plan.runner,
    }


def resolved(sample: Sample, arm: PlannedArm) -> dict[str, Any]:
    """Return the block size that a method settled where the plan left it open; null where no visit tells.

    A visit tells what is verified: of an arm that verifies a part of its block that is not the block's size.
    """
    partly = "verify_length" in arm.settings
    told = None if partly else metrics.count(sample.visits["block_size"].dropna().tail(1))
    block, drafts = arm.block_size or told, arm.num_draft_tokens
    if drafts is None and block is not None:
        drafts = block - 1
    return {"block_size": block, "num_draft_tokens": drafts}


def measures(
    sample: Sample, comparison: Comparison | None, seed: int, tree: bool = False
) -> dict[str, Any]:
    """Return what was measured of an arm; `comparison` is None for the baseline. Verdicts are added later."""
    sums = tally(sample)
    return {
        "rounds": sample.rounds,
        "prompts": int(sample.answered["prompt_sha256"].nunique()),
        **_counts(sample, sums),
        **_acceptance(sample, sums, seed, tree),
        **_speed(comparison, sums),
        "occupancy": metrics.occupancy(sample.visits),
        "backend": _backend(sample),
        "client_lag_p99_s": metrics.largest(sample.visits["lag_p99_s"]),
        "cached_prompt_tokens": cached_tokens(sample),
        **metrics.latencies(sample),
        "output_throughput_tok_s": metrics.output_throughput(sample),
        "window": metrics.window(sample)
        | {"acceptance_length": comparison.tau if comparison else None},
        "step_time": metrics.step_time(sample),
        "peak_memory_bytes": metrics.largest(sample.visits["peak_memory_bytes"]),
        "kv_bytes_per_token": metrics.largest(sample.visits["kv_bytes_per_token"]),
        "repetition": repetition(sample, comparison),
        "identities_broken": _identities(sample, comparison, tree),
    }


def _backend(sample: Sample) -> dict[str, Any]:
    """Return what the backend said of itself in the last visit, but for its command and what is long.

    What it counts per visit is summed over the visits.
    """
    states = sample.visits["backend"].tolist()
    told = dict(states[-1]) if states else {}
    told |= {key: summed for key in PER_VISIT if (summed := summed_state(sample, key)) is not None}
    return {key: value for key, value in told.items() if isinstance(value, str | int | float)}


def _counts(sample: Sample, sums: Tally) -> dict[str, Any]:
    """Return what was asked and what came: null where a backend does not tell it."""
    steps = sample.steps
    passes = steps.scheduled != NOT_TOLD
    return {
        "requests": len(sample.answered),
        "failed": len(sample.requests) - len(sample.answered),
        "output_tokens": metrics.count(sample.answered["output_tokens"]),
        **_drafting(sums),
        "scheduled_tokens": int(steps.scheduled[passes].sum(dtype=np.int64))
        if passes.any()
        else None,
    }


def _drafting(sums: Tally) -> dict[str, int | None]:
    """Return steps, drafts, and drafts that are in the text."""
    values = {
        "verify_steps": sums.steps,
        "drafted_tokens": sums.drafted,
        "accepted_tokens": sums.accepted,
    }
    return {name: None if value is None else round(value) for name, value in values.items()}


def _acceptance(sample: Sample, sums: Tally, seed: int, tree: bool) -> dict[str, Any]:
    positions, drafting = positions_of(sample, tree), _drafting(sums)
    return {
        "acceptance_length": length(sample, sums, seed),
        "acceptance_rate": metrics.ratio(drafting["accepted_tokens"], drafting["drafted_tokens"]),
        "acceptance_rate_marginal": positions.marginal,
        "acceptance_rate_conditional": positions.conditional,
        "accepted_histogram": positions.histogram,
    }


def _break_even(found: Comparison, sums: Tally) -> dict[str, Any]:
    """Return the break-even tau: what a step costs; where only visits are counted, tau over the decode speedup."""
    if found.break_even_tau is not None or found.decode_speedup is None:
        return {"value": found.break_even_tau, "implied": found.implied}
    return {
        "value": metrics.ratio(sums.length, found.decode_speedup.ratio),
        "implied": True,
    }


def _speed(found: Comparison | None, sums: Tally) -> dict[str, Any]:
    """Return the ratios to the baseline; null for the baseline itself."""
    keys = ("speedup", "decode_speedup", "break_even_tau", "speedup_per_prompt_gm", "length_ratio")
    if found is None:
        return dict.fromkeys((*keys, "pairs", "per_prompt")) | {"left_out": 0}
    left, right = found.pairs.baseline, found.pairs.arm
    rounds = per_round(left.end_to_end, right.end_to_end)
    prompts = per_prompt(left.end_to_end, right.end_to_end)
    return {
        "speedup": _ratio(found.speedup),
        "decode_speedup": _ratio(found.decode_speedup),
        "break_even_tau": _break_even(found, sums),
        "speedup_per_prompt_gm": geometric_mean(left.end_to_end, right.end_to_end),
        "length_ratio": metrics.ratio(
            float(right.output_tokens.sum()), float(left.output_tokens.sum())
        ),
        "pairs": [float(value) for value in np.exp(rounds)],
        "per_prompt": {
            request: float(value)
            for request, value in zip(found.pairs.prompts, np.exp(prompts), strict=True)
        },
        "left_out": found.pairs.left_out,
    }


def _ratio(found: LogRatio | None) -> dict[str, Any]:
    """Return a ratio with its 95 % interval; standard errors are those of its logarithm."""
    keys = ("value", "ci_low", "ci_high", "scope", "se_prompts", "se_rounds", "df")
    if found is None:
        return dict.fromkeys(keys)
    low, high = found.interval() or (None, None)
    errors = (None if part is None else part**0.5 for part in (found.var_prompts, found.var_rounds))
    known = found.parts is not None
    values = (found.ratio, low, high, found.scope, *errors, found.df if known else None)
    return dict(zip(keys, values, strict=True))


def _identities(sample: Sample, found: Comparison | None, tree: bool) -> list[str]:
    positions = positions_of(sample, tree)
    broken = [*broken_records(sample), *broken_positions(positions)]
    if found is not None and found.decode_speedup is not None:
        broken += broken_decomposition(found.decode_speedup.ratio, found.tau, found.break_even_tau)
    return broken
