"""What will run, and in which order: known before anything runs, the same for the same spec.

Rounds of a cell follow a randomly permuted Williams design, each even round mirroring the one before (two arms: ABBA
BAAB), so that a linear drift cancels within a pair of rounds and no arm always follows the same other arm. A discarded
round comes first. The baseline visits the first cell before and after everything else: the drift of the whole run.
Source: E. J. Williams, "Experimental designs balanced for the estimation of residual effects of treatments", 1949.
"""

import random
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from dflash_bench.assets import is_path
from dflash_bench.errors import ConfigError
from dflash_bench.spec import LOSSY_RULES, SCHEMA_VERSION, Arm, Rule, Spec

Role = Literal["control_first", "discard", "measure", "control_last"]


class Frozen(BaseModel):
    """An immutable piece of a plan."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Cell(Frozen):
    """One point of the grid, in which all arms are compared."""

    workload: str
    batch_size: int
    context_length: int | None
    temperature: float

    @property
    def id(self) -> str:
        """A short stable name, such as `gsm8k.b4.c1024.t0`."""
        context = f".c{self.context_length}" if self.context_length else ""
        temperature = repr(self.temperature).removesuffix(".0")
        return f"{self.workload}.b{self.batch_size}{context}.t{temperature}"


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

    @property
    def lossy(self) -> bool:
        """Whether its rule changes the law of the text: another model, in effect, however fast."""
        return self.verify in LOSSY_RULES


class Visit(Frozen):
    """One arm's turn in one round of one cell. Round 0 is the discarded one."""

    id: str
    cell: str
    arm: str
    round: int
    role: Role


class Unsupported(Frozen):
    """An (arm, cell) that the runner cannot do, and why."""

    arm: str
    cell: str
    reason: str


class Plan(Frozen):
    """Cells, arms and visits in their order."""

    schema_version: int = SCHEMA_VERSION
    name: str
    runner: str
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


Refusal = Callable[[PlannedArm, Cell], str | None]


def make_plan(spec: Spec, refusal: Refusal = lambda arm, cell: None) -> Plan:
    """Lay out the grid of `spec`; `refusal(arm, cell)` says why a runner cannot do that, or None."""
    arms = _by_name(spec)
    cells = {cell.id: cell for cell in _cells(spec)}
    unsupported = tuple(
        Unsupported(arm=arm.name, cell=cell.id, reason=reason)
        for cell in cells.values()
        for arm in arms.values()
        if (reason := refusal(arm, cell)) is not None
    )
    plan = Plan(
        name=spec.name,
        runner=spec.runner,
        baseline=spec.baseline,
        rounds=spec.design.rounds,
        cells=cells,
        arms=arms,
        visits=(),
        unsupported=unsupported,
    )
    _check_something_remains(plan)
    primary_cell(plan, spec.design.primary)
    return plan.model_copy(update={"visits": tuple(_visits(plan, spec.design.seed))})


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


def workload_name(reference: str) -> str:
    """Return the name that a workload has in results: a bare name itself, a file's name without its endings."""
    return Path(reference).name.partition(".")[0] if is_path(reference) else reference


def _by_name(spec: Spec) -> dict[str, PlannedArm]:
    """Return the arms by name; two of one name, or a baseline that became several, are refused."""
    arms: dict[str, PlannedArm] = {}
    for arm in _arms(spec):
        if arm.name in arms:
            raise ConfigError(
                f"arms: two arms are called '{arm.name}' once sweep.block_size is filled in.",
                remedy="Rename one of them: results are kept by name.",
            )
        arms[arm.name] = arm
    if spec.baseline not in arms:
        raise ConfigError(
            f"design.baseline: '{spec.baseline}' became one arm per sweep.block_size.",
            remedy="Give that arm a block_size of its own, so that there is one baseline.",
        )
    return arms


def _arms(spec: Spec) -> Iterator[PlannedArm]:
    """Expand `block_size` over the arms that have one: `dflash` becomes `dflash-b4`, `dflash-b8`, ..."""
    for name, arm in spec.arms.items():
        if arm.method == "ar":
            yield PlannedArm(name=name, method=arm.method)
            continue
        swept = arm.block_size is None and spec.sweep.block_size
        for block in spec.sweep.block_size if swept else (arm.block_size,):
            _check_length(name, arm, block)
            yield PlannedArm(
                name=f"{name}-b{block}" if swept else name,
                method=arm.method,
                draft=arm.draft,
                block_size=block,
                num_draft_tokens=_drafts(arm, block),
                verify=arm.verify or spec.sampling.verify,
                settings=arm.settings,
            )


def _check_length(name: str, arm: Arm, block: int | None) -> None:
    """Refuse to verify more nodes than a block of the sweep has."""
    if arm.verify_length is not None and block is not None and arm.verify_length > block:
        raise ConfigError(
            f"arms.{name}.verify_length: {arm.verify_length} is above the {block} of sweep.block_size.",
            remedy="Lower it, leave that block size out, or give the arm a block_size of its own.",
        )


def _drafts(arm: Arm, block: int | None) -> int | None:
    """Return how many drafts of a step are verified; None where the method's own default says."""
    nodes = arm.verify_length or block
    return nodes - 1 if nodes else None


def _cells(spec: Spec) -> Iterator[Cell]:
    workloads = [workload_name(reference) for reference in spec.workloads]
    if len(set(workloads)) != len(workloads):
        raise ConfigError(
            f"workloads: two of {list(spec.workloads)} have the same name.",
            remedy="Rename one of the files: results are kept by name.",
        )
    axes = (workloads, spec.sweep.batch_size, spec.sweep.context_length, spec.sweep.temperature)
    for workload, batch, context, temperature in product(*axes):
        yield Cell(
            workload=workload,
            batch_size=batch,
            context_length=context,
            temperature=temperature,
        )


def _check_something_remains(plan: Plan) -> None:
    """Refuse a plan in which no cell has the baseline and another arm."""
    for cell in plan.cells:
        names = plan.arms_of(cell)
        if plan.baseline in names and len(names) > 1:
            return
    if len(plan.arms) < 2:
        raise ConfigError(
            "arms: there is nothing to compare with the baseline.",
            remedy="Add an arm, such as `dflash: {method: dflash, draft: lab}`.",
        )
    reasons = "; ".join(sorted({entry.reason for entry in plan.unsupported}))
    raise ConfigError(
        f"runner {plan.runner}: no arm of this spec can be measured against '{plan.baseline}': {reasons}",
        remedy="Change the arms, or take another runner.",
    )


def _visits(plan: Plan, seed: int) -> Iterator[Visit]:
    """Controls around everything; inside, cell by cell, round by round, arm by arm."""
    cells = [cell for cell in plan.cells if plan.baseline in plan.arms_of(cell)]
    yield Visit(id="control/first", cell=cells[0], arm=plan.baseline, round=0, role="control_first")
    for cell in cells:
        for number, order in enumerate(
            round_orders(plan.arms_of(cell), plan.rounds, f"{seed}/{cell}")
        ):
            for arm in order:
                role: Role = "measure" if number else "discard"
                yield Visit(
                    id=f"{cell}/r{number}/{arm}", cell=cell, arm=arm, round=number, role=role
                )
    yield Visit(id="control/last", cell=cells[0], arm=plan.baseline, round=0, role="control_last")


def round_orders(arms: list[str], rounds: int, seed: str) -> list[list[str]]:
    """Return the order of `arms` in the discarded round and in each of `rounds` rounds."""
    chance = random.Random(seed)
    labels = chance.sample(arms, len(arms))
    rows = williams(len(arms))
    chance.shuffle(rows)
    orders = [labels]
    for number in range(rounds):
        row = rows[number // 2 % len(rows)]
        order = [labels[index] for index in row]
        orders.append(order if number % 2 == 0 else order[::-1])
    return orders


def williams(size: int) -> list[list[int]]:
    """Return the rows of a Williams design: each treatment follows each other one equally often.

    An even `size` needs `size` rows. An odd one needs the mirrored rows as well, and `round_orders`
    mirrors every row anyway.
    """
    first = [0]
    for step in range(1, size):
        first.append((step + 1) // 2 if step % 2 else size - step // 2)
    return [[(index + shift) % size for index in first] for shift in range(size)]
