"""What a plan is made of: cells, arms and visits, immutable, as `plan.json` holds them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from dflash_bench.errors import ConfigError
from dflash_bench.spec import LOSSY_RULES, SCHEMA_VERSION, Quantization, Rule

Role = Literal["control_first", "discard", "measure", "control_last"]
Nesting = Literal["cell", "start"]
"""What encloses what: in a process cell -> round -> arm; on servers round -> arm -> cell, one start for its cells."""


class Frozen(BaseModel):
    """An immutable piece of a plan."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Cell(Frozen):
    """One point of the grid, in which all arms are compared."""

    workload: str
    batch_size: int
    context_length: int | None
    temperature: float
    max_new_tokens: int | None = None
    request_rate: float | None = None
    target_quantization: Quantization | None = None

    @property
    def id(self) -> str:
        """A short stable name, such as `gsm8k.b4.c1024.t0`; what is null and not always there is left out."""
        parts = {
            ".b": self.batch_size,
            ".c": self.context_length,
            ".t": self.temperature,
            ".n": self.max_new_tokens,
            ".r": self.request_rate,
            ".": self.target_quantization,
        }
        told = (f"{mark}{_short(value)}" for mark, value in parts.items() if value is not None)
        return self.workload + "".join(told)

    @property
    def axes(self) -> dict[str, Any]:
        """The axes by name; those that came later only where they are swept."""
        always = {"workload", "batch_size", "context_length", "temperature"}
        return {name: value for name, value in self if name in always or value is not None}


class PlannedArm(Frozen):
    """An arm at one block size.

    Null is the method's own default. `num_draft_tokens` counts the drafts that are verified: one less than the block's
    nodes, for the anchor is not drafted. `verify` is the rule, null for plain decoding, which drafts nothing.
    """

    name: str
    method: str
    draft: str | None = None
    block_size: int | None = None
    num_draft_tokens: int | None = None
    verify: Rule | None = None
    settings: dict[str, Any] = {}
    base_url: str | None = None

    @property
    def lossy(self) -> bool:
        """Whether its rule changes the law of the text: another model, in effect, however fast."""
        return self.verify in LOSSY_RULES


class Visit(Frozen):
    """One arm's turn in one round of one cell. Round 0 is the discarded one.

    `start` names the start of a backend that the visit shares with its neighbours; null where arms stay open.
    """

    id: str
    cell: str
    arm: str
    round: int
    role: Role
    start: str | None = None


class Unsupported(Frozen):
    """An (arm, cell) that the runner cannot do, and why."""

    arm: str
    cell: str
    reason: str


class Plan(Frozen):
    """Cells, arms and visits in their order.

    `couples_noise`: under sampling too the runner's arms must give one text; otherwise texts share only their law.
    """

    schema_version: int = SCHEMA_VERSION
    name: str
    runner: str
    couples_noise: bool = True
    baseline: str
    rounds: int
    cells: dict[str, Cell]
    arms: dict[str, PlannedArm]
    visits: tuple[Visit, ...]
    unsupported: tuple[Unsupported, ...] = ()

    def arms_of(self, cell: str) -> list[str]:
        """Return the names of the arms that visit `cell`, in the plan's order."""
        missing = {entry.arm for entry in self.unsupported if entry.cell == cell}
        return [name for name in self.arms if name not in missing]


def primary_cell(plan: Plan, primary: dict[str, Any] | None) -> str | None:
    """Return the id of the one cell whose axes equal `primary`; None if no primary cell is named."""
    if primary is None:
        return None
    unknown = set(primary) - set(Cell.model_fields)
    found = [
        cell.id
        for cell in plan.cells.values()
        if all(getattr(cell, axis, None) == value for axis, value in primary.items())
    ]
    if unknown or len(found) != 1:
        raise ConfigError(
            f"design.primary: {primary} names {len(found)} cells of the grid, not one.",
            remedy=f"Give axes ({', '.join(Cell.model_fields)}) that single out one of: {', '.join(plan.cells)}.",
        )
    return found[0]


def _short(value: object) -> str:
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
