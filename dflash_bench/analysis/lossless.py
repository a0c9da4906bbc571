"""Is the text unchanged? Output ids of an arm against the baseline's, same request, same round.

A difference is counted as `different` and judged by nobody here: whether it was a near-tie of two logits or a wrong
token can be told only by scoring both texts again, and `near_tie` and `wrong` stay null until that was done. Where
every compared output is identical there is nothing to judge, and `wrong` is 0. The control compares the baseline with
itself across rounds: the floor of this machine.

What an arm promises depends on its rule. `match` draws each token by the noise of its position, as plain decoding does:
the *text* must be the baseline's. `reject` at a temperature draws with other noise: only the *law* is the same, two
texts are two samples, and comparing them says nothing. `typical` promises nothing: LOSSY, its texts are compared all
the same, to show how far it goes. At temperature 0 all three are `match`.
"""

from typing import Any, Literal

import numpy as np
import pandas as pd

from dflash_bench.analysis.frames import Sample
from dflash_bench.analysis.pairs import matched
from dflash_bench.plan import Cell, PlannedArm

SHOWN = 3  # first divergences that are listed
Promise = Literal["text", "law", "nothing"]


def promise(
    arm: PlannedArm, baseline: PlannedArm, cell: Cell, couples_noise: bool = True
) -> Promise:
    """Return what `arm` keeps of the `baseline`'s output in `cell`: its text, its law, or nothing.

    A baseline that verifies by `reject` has a text of its own, which no other arm can have; so has every arm of a
    backend that does not couple the noise of its arms.
    """
    if cell.temperature == 0:
        return "text"
    if arm.lossy:
        return "nothing"
    own_noise = not couples_noise or any(side.verify == "reject" for side in (arm, baseline))
    return "law" if own_noise and arm.name != baseline.name else "text"


def compare(baseline: Sample, arm: Sample, promised: Promise = "text") -> dict[str, Any]:
    """Return how many outputs were compared, identical and different, and the first divergences.

    Nothing is compared where only the law is promised.
    """
    left, right = matched(_known(baseline), _known(arm))
    # Tokens beside tokens, or text beside text where a backend shows no more: never the one beside the other.
    alike = left["ids"].isna().to_numpy() == right["ids"].isna().to_numpy()
    left, right = left[alike], right[alike]
    if promised == "law":
        left, right = left.iloc[:0], right.iloc[:0]
    differs = left["said"].to_numpy() != right["said"].to_numpy()
    different = int(differs.sum())
    return {
        "promise": promised,
        "compared": len(left),
        "identical": len(left) - different,
        "near_tie": None,
        "wrong": 0 if len(left) and not different else None,
        "different": different,
        "first_divergences": _divergences(left[differs].head(SHOWN), right[differs].head(SHOWN)),
    }


def control(baseline: Sample) -> dict[str, int]:
    """Compare the baseline's later rounds with its first, request by request."""
    known = _known(baseline).sort_values("round", kind="stable")
    first = known.drop_duplicates("asked").set_index("asked")["said"]
    later = known[known.duplicated("asked")]
    same = later["said"].to_numpy() == first[later["asked"]].to_numpy()
    return {"control_compared": len(later), "control_identical": int(same.sum())}


def divergence(left: bytes, right: bytes) -> int:
    """Return the position of the first token (or character) that differs; where one text ends early, its end."""
    ids, others = (np.frombuffer(side, dtype=np.intc) for side in (left, right))
    shared = min(len(ids), len(others))
    unequal = np.flatnonzero(ids[:shared] != others[:shared])
    return int(unequal[0]) if len(unequal) else shared


def _divergences(left: pd.DataFrame, right: pd.DataFrame) -> list[dict[str, Any]]:
    columns = (left["request"], left["round"], left["said"], right["said"])
    return [
        {"request": request, "round": number, "position": divergence(ids, others)}
        for request, number, ids, others in zip(*(c.tolist() for c in columns), strict=True)
    ]


def _known(sample: Sample) -> pd.DataFrame:
    """Return the answered requests whose output was recorded, as ids or as text."""
    return sample.answered[sample.answered["said"].notna()]
