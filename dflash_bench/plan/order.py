"""In which order arms visit cells, so that what the machine does over time falls on all of them alike.

Rounds follow a randomly permuted Williams design, each even round mirroring the one before (two arms: ABBA BAAB), so
that a linear drift cancels within a pair of rounds and no arm always follows the same other arm. A discarded round
comes first. The baseline visits the first cell before and after everything else: the drift of the whole run.
Source: E. J. Williams, "Experimental designs balanced for the estimation of residual effects of treatments", 1949.
"""

import random
from collections.abc import Iterator
from typing import Literal

from dflash_bench.plan.parts import Plan, Role, Visit


def visits(plan: Plan, seed: int) -> Iterator[Visit]:
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


def starts(plan: Plan, seed: int) -> Iterator[Visit]:
    """Controls around everything; inside, round by round, arm by arm, and in one start of the arm all of its cells.

    Weights of another precision need another start; there the arms of one precision follow each other, since they are
    what is compared. Cells go forwards in one round and backwards in the next.
    """
    measured = {id: cell for id, cell in plan.cells.items() if plan.baseline in plan.arms_of(id)}
    first = next(iter(measured))

    def control(which: Literal["first", "last"]) -> Visit:
        role: Role = "control_first" if which == "first" else "control_last"
        id = f"control/{which}"
        return Visit(id=id, cell=first, arm=plan.baseline, round=0, role=role, start=id)

    yield control("first")
    groups: dict[str | None, list[str]] = {}
    for id, point in measured.items():
        groups.setdefault(point.target_quantization, []).append(id)
    orders = {
        group: round_orders(_some(plan, ids), plan.rounds, f"{seed}/{group}")
        for group, ids in groups.items()
    }
    for number in range(plan.rounds + 1):
        role: Role = "measure" if number else "discard"
        for group, ids in groups.items():
            for arm in orders[group][number]:
                for cell in ids if number % 2 else reversed(ids):
                    if arm in plan.arms_of(cell):
                        yield Visit(
                            id=f"{cell}/r{number}/{arm}",
                            cell=cell,
                            arm=arm,
                            round=number,
                            role=role,
                            start=f"r{number}/{arm}" + (f"/{group}" if group else ""),
                        )
    yield control("last")


def _some(plan: Plan, cells: list[str]) -> list[str]:
    """Return the arms that visit at least one of `cells`, in the plan's order."""
    return [arm for arm in plan.arms if any(arm in plan.arms_of(cell) for cell in cells)]


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
