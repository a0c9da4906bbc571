"""Why a verdict was given: the speedup with its interval, tau beside its break-even, and what is missing.

Each names its metric (end to end, prefill included), its loop and how busy the slots were: a verdict holds for these.
"""

from dataclasses import dataclass
from math import inf

from dflash_bench.analysis.sample_size import Needed, needed
from dflash_bench.analysis.stats import LogRatio
from dflash_bench.analysis.verdict import ALPHA, MIN_ROUNDS, Claim, Verdict


@dataclass(frozen=True)
class Evidence:
    """What a verdict stands on. `comparisons` shared one risk of a false claim; 1 for the primary cell."""

    ratio: LogRatio | None
    claim: Claim | None
    delta: float
    batch_size: int
    occupancy: float | None
    tau: float | None
    break_even_tau: float | None
    rounds: int
    compared: int
    different: int
    comparisons: int
    broken: tuple[str, ...] = ()
    lossy: bool = False
    request_rate: float | None = None


def reason(verdict: Verdict, evidence: Evidence) -> str:
    """Return the reason of `verdict`."""
    if evidence.ratio is None:
        return "No round has requests of both arms that can be compared."
    label = "LOSSY: " if evidence.lossy else ""
    figures = f"{label}{_speedup(evidence.ratio)} {_circumstances(evidence)}{_step_cost(evidence)}."
    if verdict == "NEUTRAL":
        return f"{figures} The difference is within {_percent(evidence.delta)}."
    if verdict == "UNPROVEN":
        return f"{figures} {_what_is_missing(evidence.ratio, evidence)}"
    return figures


def _speedup(ratio: LogRatio) -> str:
    interval = ratio.interval()
    if interval is None:
        return f"{ratio.ratio:.2f}x (no interval)"
    return f"{ratio.ratio:.2f}x ({interval[0]:.2f}-{interval[1]:.2f})"


def _circumstances(evidence: Evidence) -> str:
    busy = (
        ""
        if evidence.occupancy is None
        else f" with {_percent(evidence.occupancy)} of the slots busy"
    )
    if evidence.request_rate is not None:
        return (
            f"in waiting per token, from due to answered, at {evidence.request_rate:g} requests/s in an open loop,"
            f" at most {evidence.batch_size} in flight{busy}"
        )
    return f"end to end, prefill included, at batch {evidence.batch_size} in a closed loop{busy}"


def _step_cost(evidence: Evidence) -> str:
    if evidence.tau is None or evidence.break_even_tau is None:
        return ""
    return f": tau {evidence.tau:.2f} against a break-even of {evidence.break_even_tau:.2f}"


def _what_is_missing(ratio: LogRatio, evidence: Evidence) -> str:
    claim = evidence.claim
    if evidence.broken:
        return f"It is no valid measurement: {evidence.broken[0].rstrip('.')}."
    if evidence.rounds < MIN_ROUNDS:
        return f"A verdict needs {MIN_ROUNDS} rounds; there are {evidence.rounds}."
    if claim is None:
        return "A verdict needs an interval: at least 2 prompts, and tokens in every round."
    if claim.p <= ALPHA and evidence.lossy:
        return (
            "Its rule may change what the model says, and a method that does is not said to help."
        )
    if claim.p <= ALPHA:
        return (
            f"{evidence.different} of {evidence.compared} outputs differ from the baseline's, "
            "and a method that changes the text is not said to help."
        )
    size = _settled_by(needed(ratio, evidence.delta, evidence.comparisons), ratio)
    return f"{_excluded(ratio, evidence)} {size}"


def _excluded(ratio: LogRatio, evidence: Evidence) -> str:
    """Say which of loss, no difference and gain the 95 % interval leaves."""
    upper = 1 + evidence.delta
    low, high = ratio.interval() or (0.0, inf)
    margin = _percent(evidence.delta)
    if low > upper or high < 1 / upper or (low >= 1 / upper and high <= upper):
        return f"The interval alone would do, but not among {evidence.comparisons} comparisons."
    if low >= 1 / upper:
        return f"A loss of over {margin} is excluded; a gain of over {margin} is not shown."
    if high <= upper:
        return f"A gain of over {margin} is excluded; a loss of over {margin} is not shown."
    return f"Neither a gain nor a loss of over {margin} is excluded."


def _settled_by(size: Needed, ratio: LogRatio) -> str:
    if size.factor is None:
        return "The estimate lies too close to the border to be settled by a practical sample."
    ways = []
    if size.prompts is not None:
        ways.append(f"{size.prompts} prompts (now {ratio.prompts})")
    if size.rounds is not None:
        ways.append(f"{size.rounds} rounds (now {ratio.rounds})")
    if not ways:
        ways.append(f"{size.factor} times the prompts and the rounds")
    return f"About {' or '.join(ways)} would probably settle it."


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
