"""From a spec to its plan: the grid of cells, the arms, and what the runner refuses of them."""

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

from dflash_bench.assets import is_path
from dflash_bench.errors import ConfigError
from dflash_bench.plan.order import starts, visits
from dflash_bench.plan.parts import Cell, Nesting, Plan, PlannedArm, Unsupported, primary_cell
from dflash_bench.spec import Arm, Rule, Spec

Refusal = Callable[[PlannedArm, Cell], str | None]


def make_plan(
    spec: Spec,
    refusal: Refusal = lambda arm, cell: None,
    nesting: Nesting = "cell",
    couples_noise: bool = True,
) -> Plan:
    """Lay out the grid of `spec`; `refusal(arm, cell)` says why a runner cannot do that, or None."""
    arms = _by_name(spec, couples_noise)
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
        couples_noise=couples_noise,
        baseline=spec.baseline,
        rounds=spec.design.rounds,
        cells=cells,
        arms=arms,
        visits=(),
        unsupported=unsupported,
    )
    _check_something_remains(plan)
    primary_cell(plan, spec.design.primary)
    turns = visits(plan, spec.design.seed) if nesting == "cell" else starts(plan, spec.design.seed)
    return plan.model_copy(update={"visits": tuple(turns)})


def workload_name(reference: str) -> str:
    """Return the name that a workload has in results: a bare name itself, a file's name without its endings."""
    return Path(reference).name.partition(".")[0] if is_path(reference) else reference


def _by_name(spec: Spec, couples_noise: bool) -> dict[str, PlannedArm]:
    """Return the arms by name; two of one name, or a baseline that became several, are refused."""
    arms: dict[str, PlannedArm] = {}
    for arm in _arms(spec, couples_noise):
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


def _arms(spec: Spec, couples_noise: bool) -> Iterator[PlannedArm]:
    """Expand `block_size` over the arms that have one: `dflash` becomes `dflash-b4`, `dflash-b8`, ..."""
    for name, arm in spec.arms.items():
        if arm.method == "ar":
            yield PlannedArm(
                name=name,
                method=arm.method,
                settings=arm.settings,
                base_url=arm.base_url or spec.base_url,
            )
            continue
        rule = _rule(spec, name, arm, couples_noise)
        swept = arm.block_size is None and spec.sweep.block_size
        for block in spec.sweep.block_size if swept else (arm.block_size,):
            _check_length(name, arm, block)
            yield PlannedArm(
                name=f"{name}-b{block}" if swept else name,
                method=arm.method,
                draft=arm.draft,
                block_size=block,
                num_draft_tokens=_drafts(arm, block),
                verify=rule,
                settings=arm.settings,
                base_url=arm.base_url or spec.base_url,
            )


def _rule(spec: Spec, name: str, arm: Arm, couples_noise: bool) -> Rule:
    """Return the rule that judges drafts. Backends with noise of their own reject; at temperature 0 that is match."""
    if couples_noise:
        return arm.verify or spec.sampling.verify
    if arm.verify not in (None, "reject"):
        raise ConfigError(
            f"arms.{name}.verify: runner {spec.runner} verifies by its own rule, not by {arm.verify}.",
            remedy="Remove the key, or measure with runner: reference.",
        )
    return "reject"


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
    axes = {"workload": workloads} | {
        name: getattr(spec.sweep, name) for name in Cell.model_fields if name != "workload"
    }
    for values in product(*axes.values()):
        yield Cell(**dict(zip(axes, values, strict=True)))


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
