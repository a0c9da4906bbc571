"""Latency, throughput and where a step's time goes, for one arm in one cell. None is "not measured".

Times to first token, per output token and end to end are a request's own waiting time; everything per token or per
step is taken over the window, the time in which all slots were busy, from each request's share of it
(docs/method.md).
"""

from typing import Any

import numpy as np
import pandas as pd

from dflash_bench.analysis.frames import PHASES, Sample

QUANTILES = {"p50": 50, "p90": 90, "p99": 99}


def percentiles(values: "pd.Series[float]") -> dict[str, float | None]:
    """Return p50, p90 and p99 of what was measured, linear between order statistics."""
    measured = values.dropna().to_numpy()
    if not len(measured):
        return dict.fromkeys(QUANTILES)
    found = np.percentile(measured, list(QUANTILES.values()))
    return dict(zip(QUANTILES, map(float, found), strict=True))


def latencies(sample: Sample) -> dict[str, dict[str, float | None]]:
    """Return the percentiles of `ttft_s`, `tpot_s` = (e2e - ttft) / (output tokens - 1), and `e2e_s`."""
    requests = sample.answered
    gaps = (requests["output_tokens"] - 1).where(requests["output_tokens"] > 1)
    return {
        "ttft_s": percentiles(requests["ttft_s"]),
        "tpot_s": percentiles((requests["e2e_s"] - requests["ttft_s"]) / gaps),
        "e2e_s": percentiles(requests["e2e_s"]),
        **_stream(sample),
        "client_queue_s": percentiles(requests["client_queue_s"]),
    }


def _stream(sample: Sample) -> dict[str, dict[str, float | None]]:
    """Return the percentiles of `chunk_gap_s`, the gap between two chunks of a stream, and of `itl_s`.

    `itl_s` is that gap spread over the tokens of the later chunk. A burst of accepted drafts is one chunk: its raw gap
    is no token's time.
    """
    told = [chunks for chunks in sample.answered["chunks"] if chunks is not None]
    gaps = [np.diff(at) for at, _ in told]
    tokens = [counts[1:] for _, counts in told]
    gap, count = (np.concatenate([np.empty(0), *parts]) for parts in (gaps, tokens))
    spread = np.repeat(gap / np.maximum(count, 1), count.astype(np.int64))
    return {
        "chunk_gap_s": percentiles(pd.Series(gap)),
        "itl_s": percentiles(pd.Series(spread)),
    }


def window(sample: Sample) -> dict[str, Any]:
    """Return the totals of the windows: wall and CPU seconds, output tokens, active row-steps."""
    tokens = count(sample.answered["window_tokens"])
    wall, cpu = (total(sample.visits[name]) for name in ("window_wall_s", "window_cpu_s"))
    return {
        "wall_s": wall,
        "cpu_s": cpu,
        "tokens": tokens,
        "row_steps": count(sample.answered["window_steps"]),
        "wall_s_per_token": ratio(wall, tokens),
        "cpu_s_per_token": ratio(cpu, tokens),
    }


def output_throughput(sample: Sample) -> float | None:
    """Return output tokens per second of the window. A failed request's time counts, its tokens do not."""
    found = window(sample)
    return ratio(found["tokens"], found["wall_s"])


def step_time(sample: Sample) -> dict[str, dict[str, float | None]]:
    """Return the wall seconds of each phase of the window, per active row-step and per output token.

    `prefill` is the target's and belongs to no step; per token, the phases sum to the window's seconds per token.
    """
    shares = sample.answered
    steps, tokens = total(shares["window_steps"]), total(shares["window_tokens"])
    spent = {phase.removesuffix("_s"): total(shares[f"window_{phase}"]) for phase in PHASES}
    return {
        "per_row_step_s": {phase: ratio(seconds, steps) for phase, seconds in spent.items()},
        "per_token_s": {phase: ratio(seconds, tokens) for phase, seconds in spent.items()},
    }


def occupancy(visits: pd.DataFrame) -> float | None:
    """Return the mean share of busy slots over the windows' time."""
    known = visits.dropna(subset=["occupancy", "window_wall_s"])
    busy = known["occupancy"] * known["window_wall_s"]
    return ratio(total(busy), total(known["window_wall_s"]))


def largest(values: "pd.Series[float]") -> float | None:
    """Return the largest value that was measured."""
    highest = values.max()
    return None if np.isnan(highest) else float(highest)


def total(values: "pd.Series[float]") -> float | None:
    """Return the sum of what was measured; None, not 0, if nothing was."""
    measured = np.asarray(values, dtype=np.float64)
    return None if np.isnan(measured).all() else float(np.nansum(measured))


def count(values: "pd.Series[float]") -> int | None:
    """Return the sum of counts."""
    summed = total(values)
    return None if summed is None else round(summed)


def ratio(above: float | None, below: float | None) -> float | None:
    """Return above / below; None where either is unknown or nothing is below."""
    return above / below if above is not None and below else None
