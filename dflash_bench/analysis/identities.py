"""What must hold in any honest record, checked on every cell: a broken identity is a broken measurement, not noise.

Each check returns a sentence for what is broken, and nothing for what holds.
"""

from collections.abc import Iterator
from itertools import pairwise
from math import isclose, log

import numpy as np

from dflash_bench.analysis.acceptance import ByPosition
from dflash_bench.analysis.frames import Sample
from dflash_bench.analysis.steps import NOT_TOLD


def broken_records(sample: Sample) -> Iterator[str]:
    """Check steps against tokens, shares against windows, and that no request is missing."""
    steps, requests = sample.steps, sample.requests
    committed, accepted = steps.committed, steps.accepted
    if wrong := int((accepted != committed - 1).sum()):
        yield f"accepted = committed - 1 fails in {wrong} of {len(accepted)} steps"
    if wrong := int((accepted > steps.drafted).sum()):
        yield f"accepted <= drafted fails in {wrong} of {len(accepted)} steps"
    if wrong := int((committed + steps.cut > 1 + steps.drafted).sum()):
        yield f"committed + cut <= 1 + drafted fails in {wrong} of {len(accepted)} steps"
    if wrong := int((accepted > steps.depth)[steps.depth != NOT_TOLD].sum()):
        yield f"accepted <= depth of the draft fails in {wrong} of {len(accepted)} steps"
    told = steps.scheduled != NOT_TOLD
    if wrong := int((steps.scheduled < 1 + steps.drafted)[told].sum()):
        yield f"scheduled >= 1 + drafted fails in {wrong} of {int(told.sum())} steps"
    expected = requests["output_tokens"].to_numpy() - 1
    known = steps.known & ~np.isnan(expected)
    if wrong := int((steps.per_request(committed) != expected)[known].sum()):
        yield f"sum of committed = output tokens - 1 fails in {wrong} of {int(known.sum())} requests"
    summed = requests["summed_steps"].to_numpy() + requests["summed_kept"].to_numpy()
    told = ~np.isnan(summed) & ~np.isnan(expected)
    if wrong := int((summed != expected)[told].sum()):
        yield f"steps + accepted - overshoot = output tokens - 1 fails in {wrong} of {int(told.sum())} requests"
    with_ids = requests.dropna(subset=["ids", "output_tokens"])
    lengths = with_ids["ids"].map(len) // np.dtype(np.intc).itemsize
    if wrong := int((lengths != with_ids["output_tokens"]).sum()):
        yield f"output tokens = number of output ids fails in {wrong} of {len(with_ids)} requests"
    yield from _broken_visits(sample)


def _broken_visits(sample: Sample) -> Iterator[str]:
    """Check that each visit has all its requests, and that their shares sum to its window."""
    recorded = sample.requests.groupby("visit").size()
    failed = set(sample.requests.loc[sample.requests["failed"], "visit"])
    window = sample.requests.groupby("visit")["window_wall_s"].sum(min_count=1)
    columns = (sample.visits[name].tolist() for name in ("visit", "requests", "window_wall_s"))
    for visit, requests, wall in zip(*columns, strict=True):
        found = int(recorded.get(visit, 0))
        if found != requests:
            yield f"visit {visit} ended {requests:.0f} requests and recorded {found}"
        elif visit in failed or np.isnan(wall) or np.isnan(window.get(visit, np.nan)):
            # A failed request takes its share of the window with it; some backends know no shares, or no window.
            continue
        elif not isclose(window[visit], wall, rel_tol=1e-6, abs_tol=1e-9):
            yield f"visit {visit}: shares sum to {window[visit]:.6g} s, its window is {wall:.6g} s"


def broken_positions(positions: ByPosition) -> Iterator[str]:
    """Check tau = 1 + sum(marginal) over steps not cut, and that marginals do not increase."""
    marginal, tau = positions.marginal, positions.uncut_mean
    if tau is not None and not isclose(tau, 1 + sum(marginal), rel_tol=1e-9):
        yield f"tau = 1 + sum(marginal) fails over steps not cut: {tau:.6g}, {1 + sum(marginal):.6g}"
    if any(later > before for before, later in pairwise(marginal)):
        yield "marginals increase with the position"


def broken_decomposition(
    decode_speedup: float | None, tau: float | None, break_even_tau: float | None
) -> Iterator[str]:
    """Check log decode speedup = log tau - log break-even tau, all over the same pairs of the window."""
    if decode_speedup is None or not tau or not break_even_tau:
        return
    expected = log(tau) - log(break_even_tau)
    if not isclose(log(decode_speedup), expected, rel_tol=1e-9, abs_tol=1e-9):
        yield f"log decode speedup = log tau - log break-even fails: {log(decode_speedup):.6g}, {expected:.6g}"
