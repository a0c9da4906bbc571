"""Values as they are written: floats of six significant digits, null for what is not a number.

This is the only place that rounds.
"""

from math import isfinite
from typing import Any

DIGITS = 6


def plain(value: Any) -> Any:
    """Return `value` with every float rounded, and every NaN or infinity as None."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if isfinite(value) else None
    return value
