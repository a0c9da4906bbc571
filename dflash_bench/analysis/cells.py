"""Records to `cells.json` and `verdicts.json`: one entry per cell and arm, then the verdicts over all of them.

Verdicts come last because they share one risk of a false claim: each knows how many others were made. The same
records give the same bytes: resampling is seeded, and floats are rounded once, at the end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dflash_bench.analysis.best import best_arms
from dflash_bench.analysis.comparison import Comparison
from dflash_bench.analysis.drift import cell_drift, control_drift
from dflash_bench.analysis.entry import identity, measures, resolved
from dflash_bench.analysis.frames import Sample, Tables, read_tables
from dflash_bench.analysis.headline import headline
from dflash_bench.analysis.lints import lints
from dflash_bench.analysis.lossless import compare, control, promise
from dflash_bench.analysis.plain import plain
from dflash_bench.analysis.reason import Evidence, reason
from dflash_bench.analysis.stats import Scope
from dflash_bench.analysis.verdict import Claim, Key, adjusted_claims, best_claim, decide
from dflash_bench.plan import Plan, primary_cell
from dflash_bench.spec import SCHEMA_VERSION, Spec

Entries = dict[Key, dict[str, Any]]


@dataclass(frozen=True)
class Analysis:
    """What `cells.json` and `verdicts.json` hold: plain values, null for what was not measured."""

    cells: list[dict[str, Any]]
    verdicts: dict[str, Any]


def analyse(
    plan: Plan, spec: Spec, lines: Iterable[Mapping[str, Any]], simulated: bool = False
) -> Analysis:
    """Compute every cell and verdict of `plan` from the `lines` of its records.

    Raises:
        InfrastructureError: the records are damaged.
        ConfigError: `design.primary` names no cell of the plan.

    """
    tables = read_tables(lines)
    primary = primary_cell(plan, spec.design.primary)
    samples = tables.samples()
    entries, comparisons = _entries(plan, spec, tables, samples, simulated)
    _judge(entries, comparisons, plan.baseline, primary, spec.design.delta)
    cells = list(entries.values())
    # An arm that changes the text is no faster way to the same thing, and a second plain one no method.
    lossless = {
        key: found
        for key, found in comparisons.items()
        if not plan.arms[key[1]].lossy and plan.arms[key[1]].method != "ar"
    }
    best = _best(samples, lossless, spec.design.scope)
    verdicts = {
        "schema_version": SCHEMA_VERSION,
        "headline": headline(cells, primary, best),
        "primary": primary,
        "drift": control_drift(tables),
        "cells": [_verdict_line(entry) for entry in cells if entry["verdict"] is not None],
        "best_arms": {cell: best.get(cell, []) for cell, _ in entries},
    }
    return Analysis(cells=plain(cells), verdicts=plain(verdicts))


def _entries(
    plan: Plan, spec: Spec, tables: Tables, samples: Mapping[Key, Sample], simulated: bool
) -> tuple[Entries, dict[Key, Comparison]]:
    """Return the entry of each (cell, arm) that the plan visits, and the comparisons with the baseline."""
    empty = Sample(
        tables.visits.iloc[:0], tables.requests.iloc[:0], tables.steps.of(np.empty(0, np.int64))
    )
    entries: Entries = {}
    comparisons: dict[Key, Comparison] = {}
    for cell in plan.cells:
        if plan.baseline not in plan.arms_of(cell):
            continue
        baseline = samples.get((cell, plan.baseline), empty)
        floor, drift = control(baseline), cell_drift(baseline)
        for arm in plan.arms_of(cell):
            sample = samples.get((cell, arm), empty)
            promised = promise(
                plan.arms[arm], plan.arms[plan.baseline], plan.cells[cell], plan.couples_noise
            )
            tree = "tree" in plan.arms[arm].settings
            other = empty if arm == plan.baseline else sample
            if arm != plan.baseline:
                comparisons[cell, arm] = Comparison.of(baseline, sample, spec.design.scope)
            entries[cell, arm] = {
                **identity(plan, cell, arm),
                **resolved(sample, plan.arms[arm]),
                "simulated": simulated,
                **measures(sample, comparisons.get((cell, arm)), spec.design.seed, tree),
                "lossless": compare(baseline, other, promised) | floor,
                "drift": drift,
                "lints": lints(sample, baseline),
                "verdict": None,
                "verdict_reason": None,
            }
    return entries, comparisons


def _judge(
    entries: Entries,
    comparisons: Mapping[Key, Comparison],
    baseline: str,
    primary: str | None,
    delta: float,
) -> None:
    """Write verdict and reason into the entries; a baseline's stay null."""
    claims: dict[Key, Claim] = {
        key: best_claim(found.speedup, delta)
        for key, found in comparisons.items()
        if found.speedup is not None and found.speedup.se is not None
    }
    adjusted = adjusted_claims(claims, primary)
    others = sum(cell != primary for cell, _ in claims)
    for key, found in comparisons.items():
        entry, claim = entries[key], adjusted.get(key)
        different = entry["lossless"]["different"]
        # What is wrong with the baseline is wrong with every comparison.
        both = (entry, entries[key[0], baseline])
        broken = [sentence for side in both for sentence in _broken(side)]
        evidence = Evidence(
            ratio=found.speedup,
            claim=claim,
            delta=delta,
            batch_size=entry["cell"]["batch_size"],
            occupancy=entry["occupancy"],
            request_rate=entry["cell"].get("request_rate"),
            tau=found.tau,
            break_even_tau=found.break_even_tau,
            rounds=len(found.pairs.rounds),
            compared=entry["lossless"]["compared"],
            different=different,
            comparisons=1 if key[0] == primary else others,
            broken=tuple(broken),
            lossy=entry["lossy"],
        )
        entry["verdict"] = decide(claim, evidence.rounds, different, len(broken), entry["lossy"])
        entry["verdict_reason"] = reason(entry["verdict"], evidence)


def _broken(entry: dict[str, Any]) -> list[str]:
    """Return what is wrong with an entry's records, or with how they came about."""
    doubts = [found["message"] for found in entry["lints"] if found["severity"] == "invalid"]
    return [*entry["identities_broken"], *doubts]


def _verdict_line(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        "cell": entry["cell"],
        "cell_id": entry["cell_id"],
        "arm": entry["arm"],
        "lossy": entry["lossy"],
        "verdict": entry["verdict"],
        "reason": entry["verdict_reason"],
    }


def _best(
    samples: Mapping[Key, Sample], comparisons: Mapping[Key, Comparison], scope: Scope
) -> dict[str, list[str]]:
    """Return the best arms of each cell in which something was compared."""
    speedups: dict[str, dict[str, float]] = {}
    for (cell, arm), found in comparisons.items():
        if found.speedup is not None:
            speedups.setdefault(cell, {})[arm] = found.speedup.ratio
    return {
        cell: best_arms({arm: samples[cell, arm] for arm in values}, values, scope)
        for cell, values in speedups.items()
    }
