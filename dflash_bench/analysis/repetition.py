"""Does a text repeat itself? A loop can be the easiest text to draft, and make an arm look fastest of all.

A text repeats itself if some run of 20 tokens occurs in it twice. Prompts whose text does so are counted, and tau and
speedup are told over the others as well: where the two differ much, the larger one belongs to the loops.
"""

from typing import Any

import numpy as np

from dflash_bench.analysis.comparison import Comparison
from dflash_bench.analysis.frames import Sample
from dflash_bench.analysis.metrics import ratio

RUN = 20  # tokens; long enough that ordinary prose and code do not repeat one by chance


def repetition(sample: Sample, comparison: Comparison | None) -> dict[str, Any]:
    """Return how many prompts' texts were looked at, how many repeat themselves, and the measures over the others."""
    known = sample.requests[sample.requests["ids"].notna()]
    loops = {ids: repeats(ids) for ids in set(known["ids"])}
    looping = set(known["request"][known["ids"].map(loops).astype(bool)])
    return {
        "prompts": int(known["request"].nunique()),
        "repeating": len(looping),
        "acceptance_length_others": _tau(sample, looping),
        "speedup_others": None if comparison is None else _speedup(comparison, looping),
    }


def repeats(ids: bytes, run: int = RUN) -> bool:
    """Tell whether the text `ids` (32-bit tokens as bytes) holds some run of `run` tokens twice."""
    width = np.dtype(np.intc).itemsize
    windows = [ids[at : at + run * width] for at in range(0, len(ids) - (run - 1) * width, width)]
    return len(set(windows)) < len(windows)


def _tau(sample: Sample, looping: set[str]) -> float | None:
    """Return committed tokens per step over the requests that are not `looping`."""
    others = ~sample.requests["request"].isin(looping).to_numpy()
    told = sample.drafting
    known = others & told.told
    return ratio(float(told.committed[known].sum()), float(told.steps[known].sum()))


def _speedup(comparison: Comparison, looping: set[str]) -> float | None:
    """Return the speedup over the prompts that are not `looping`."""
    pairs = comparison.pairs
    others = np.array([request not in looping for request in pairs.prompts], dtype=bool)
    baseline, arm = pairs.baseline, pairs.arm
    plain = ratio(float(baseline.wall_s[others].sum()), float(baseline.tokens[others].sum()))
    drafted = ratio(float(arm.wall_s[others].sum()), float(arm.tokens[others].sum()))
    return ratio(plain, drafted)
