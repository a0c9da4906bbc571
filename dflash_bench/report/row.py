"""One entry of `cells.json` as typed data: what one arm did in one cell. None is "not measured"."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dflash_bench.plan import Cell

PHASES = ("draft", "verify", "commit", "draft_prefill", "other", "decode")


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval; the bounds are None where no interval could be had."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Doubt:
    """What makes a figure doubtful: a stable code, `invalid`, `warning` or `note`, a cause and a remedy."""

    code: str
    severity: str
    message: str
    remedy: str


@dataclass(frozen=True)
class Row:
    """An arm in a cell. Times are in seconds, `phases` in seconds per row and step."""

    cell: Cell
    arm: str
    method: str
    block_size: int | None
    num_draft_tokens: int | None
    tree: bool
    lossy: bool
    verdict: str | None
    reason: str
    prompts: int | None
    requests: int
    rounds: int
    failed: int
    left_out: int
    tau: Estimate | None
    tau_per_request_mean: float | None
    marginal: tuple[float | None, ...]
    conditional: tuple[float | None, ...]
    speedup: Estimate | None
    decode_speedup: Estimate | None
    break_even_tau: float | None
    break_even_implied: bool
    pairs: tuple[float, ...]
    phases: Mapping[str, float] | None
    tok_s: float | None
    ttft_p50_s: float | None
    tpot_p50_s: float | None
    occupancy: float | None
    lossless: Mapping[str, Any] | None
    repetition: Mapping[str, Any] | None
    broken_identities: tuple[str, ...]
    lints: tuple[Doubt, ...]

    @property
    def draft(self) -> str:
        """Say what a step drafts; empty where that is not known, and of the baseline."""
        if not self.num_draft_tokens:
            return ""
        shape = "a tree of " if self.tree else ""
        return f"Block {self.block_size} drafts {shape}{self.num_draft_tokens} tokens a step."

    @property
    def wins_per_step(self) -> bool | None:
        """Whether a step yields more than it costs: tau above break-even."""
        if self.tau is None or self.break_even_tau is None:
            return None
        return self.tau.value > self.break_even_tau


def read_row(entry: Mapping[str, Any]) -> Row:
    """Read one entry of `cells.json`."""
    tau = entry.get("acceptance_length") or {}
    break_even = entry.get("break_even_tau") or {}
    return Row(
        cell=Cell.model_validate(entry["cell"]),
        arm=entry["arm"],
        method=entry["method"],
        block_size=entry.get("block_size"),
        num_draft_tokens=entry.get("num_draft_tokens"),
        tree="tree" in (entry.get("settings") or {}),
        lossy=bool(entry.get("lossy")),
        verdict=entry.get("verdict"),
        reason=entry.get("verdict_reason") or "",
        prompts=entry.get("prompts"),
        requests=entry["requests"],
        rounds=entry["rounds"],
        failed=entry.get("failed") or 0,
        left_out=entry.get("left_out") or 0,
        tau=read_estimate(tau),
        tau_per_request_mean=tau.get("per_request_mean"),
        marginal=tuple(entry.get("acceptance_rate_marginal") or ()),
        conditional=tuple(entry.get("acceptance_rate_conditional") or ()),
        speedup=read_estimate(entry.get("speedup")),
        decode_speedup=read_estimate(entry.get("decode_speedup")),
        break_even_tau=break_even.get("value"),
        break_even_implied=bool(break_even.get("implied")),
        pairs=tuple(value for value in entry.get("pairs") or () if value is not None),
        phases=read_phases(entry.get("step_time")),
        tok_s=entry.get("output_throughput_tok_s"),
        ttft_p50_s=(entry.get("ttft_s") or {}).get("p50"),
        tpot_p50_s=(entry.get("tpot_s") or {}).get("p50"),
        occupancy=entry.get("occupancy"),
        lossless=entry.get("lossless"),
        repetition=entry.get("repetition"),
        broken_identities=tuple(entry.get("identities_broken") or ()),
        lints=tuple(Doubt(**found) for found in entry.get("lints") or ()),
    )


def read_estimate(entry: Mapping[str, Any] | None) -> Estimate | None:
    """Read `{"value", "ci_low", "ci_high"}`; None without a value."""
    if not entry or entry.get("value") is None:
        return None
    return Estimate(entry["value"], entry.get("ci_low"), entry.get("ci_high"))


def read_phases(entry: Mapping[str, Any] | None) -> dict[str, float] | None:
    """Read the decode phases' seconds per row and step; None where the runner showed none."""
    seconds = (entry or {}).get("per_row_step_s") or {}
    known = {phase: seconds[phase] for phase in PHASES if seconds.get(phase) is not None}
    return known or None
