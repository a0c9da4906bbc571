"""Numbers as people read them: three digits that count, a unit, and a dash where nothing was measured."""

import math

from dflash_bench.report.row import Estimate

NOT_MEASURED = "—"
SYMBOLS = {"HELPS": "▲", "HURTS": "▼", "NEUTRAL": "■", "MIXED": "◆", "UNPROVEN": "?"}


def digits(value: float | None, count: int = 3) -> str:
    """Return `value` with `count` significant digits and no exponent, at most six decimals."""
    if value is None:
        return NOT_MEASURED
    return f"{value:,.{_decimals(value, count)}f}"


def ratio(value: float | None) -> str:
    """Return a ratio such as `3.94x`."""
    return NOT_MEASURED if value is None else f"{value:,.{_places(value)}f}x"


def interval(estimate: Estimate | None, unit: str = "") -> str:
    """Return `3.94x (3.71-4.12)`: the value, and its 95 % interval where there is one, to the same decimals."""
    if estimate is None:
        return NOT_MEASURED
    inside = bounds(estimate)
    value = f"{estimate.value:,.{_places(estimate.value)}f}{unit}"
    return f"{value} ({inside})" if inside else value


def bounds(estimate: Estimate | None) -> str:
    """Return `3.71-4.12`; empty without an interval."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    places = _places(estimate.value)
    return f"{estimate.low:,.{places}f}-{estimate.high:,.{places}f}"


def milliseconds(seconds: float | None) -> str:
    """Return seconds as milliseconds, without the unit."""
    return digits(None if seconds is None else seconds * 1e3)


def percent(share: float | None) -> str:
    """Return a share such as `97 %`."""
    return NOT_MEASURED if share is None else f"{share * 100:.0f} %"


def whole(count: int | None) -> str:
    """Return a count with its thousands apart."""
    return NOT_MEASURED if count is None else f"{count:,}"


def symbol(verdict: str) -> str:
    """Return the shape that stands for `verdict` beside its word, so that colour never speaks alone."""
    return SYMBOLS.get(verdict, "·")


def _places(value: float) -> int:
    """Return the decimals of a ratio: two, and more for one so small that two would show nothing."""
    return 2 if abs(value) >= 0.1 else _decimals(value, 2)


def _decimals(value: float, count: int) -> int:
    """Return how many decimals show `count` significant digits of `value`."""
    if value == 0 or not math.isfinite(value):
        return 0
    return min(6, max(0, count - 1 - math.floor(math.log10(abs(value)))))
