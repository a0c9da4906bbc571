"""Did the machine change during the run? The baseline's time per token, last of all over first of all."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dflash_bench.report.words import milliseconds


@dataclass(frozen=True)
class Drift:
    """Seconds per token of the two controls and their ratios, late over early; CPU time is None where not known."""

    first_wall_s: float
    last_wall_s: float
    wall_ratio: float
    cpu_ratio: float | None

    @property
    def sentence(self) -> str:
        """Say it in words."""
        times = f"{milliseconds(self.first_wall_s)} ms at the start and {milliseconds(self.last_wall_s)} ms"
        wall = f"{_change(self.wall_ratio)} wall time"
        cpu = "not known" if self.cpu_ratio is None else _change(self.cpu_ratio)
        return f"A token took {times} at the end: {wall}; process CPU time: {cpu}."


def read_drift(entry: Mapping[str, Any] | None) -> Drift | None:
    """Read the drift of `verdicts.json`; None if one of the controls is missing."""
    names = ("first_wall_s_per_token", "last_wall_s_per_token", "wall_ratio")
    first, last, ratio = ((entry or {}).get(name) for name in names)
    if first is None or last is None or ratio is None:
        return None
    return Drift(first, last, ratio, (entry or {}).get("cpu_ratio"))


def _change(ratio: float) -> str:
    if abs(ratio - 1) < 0.0005:
        return "no more and no less"
    percent = f"{abs(ratio - 1):.1%}".replace("%", " %")
    return f"{percent} {'more' if ratio >= 1 else 'less'}"
