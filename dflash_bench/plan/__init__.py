"""What will run, and in which order: known before anything runs, the same for the same spec.

make_plan(spec, refusal) -> Plan   layout.py
Cell, PlannedArm, Visit, Plan      parts.py
the order of visits                order.py
"""

from dflash_bench.plan.layout import Refusal, make_plan, workload_name
from dflash_bench.plan.order import round_orders, williams
from dflash_bench.plan.parts import (
    Cell,
    Nesting,
    Plan,
    PlannedArm,
    Role,
    Unsupported,
    Visit,
    primary_cell,
)

__all__ = [
    "Cell",
    "Nesting",
    "Plan",
    "PlannedArm",
    "Refusal",
    "Role",
    "Unsupported",
    "Visit",
    "make_plan",
    "primary_cell",
    "round_orders",
    "williams",
    "workload_name",
]
