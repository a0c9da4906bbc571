"""What the user wrote, read safely, validated, frozen.

load_spec(path) -> Spec        experiment.py
Arm, SamplingSpec              arm.py
read_part(path, model)         declarative.py, also for workloads and runners' recipes
"""

from dflash_bench.spec.arm import LOSSY_RULES, RULES, Arm, Rule, SamplingSpec, TreeSpec
from dflash_bench.spec.declarative import Part, explain, load_yaml, read_part
from dflash_bench.spec.experiment import (
    SCHEMA_VERSION,
    Design,
    Quantization,
    ServerSpec,
    Spec,
    Sweep,
    load_spec,
    overridden,
)

__all__ = [
    "LOSSY_RULES",
    "RULES",
    "SCHEMA_VERSION",
    "Arm",
    "Design",
    "Part",
    "Quantization",
    "Rule",
    "SamplingSpec",
    "ServerSpec",
    "Spec",
    "Sweep",
    "TreeSpec",
    "explain",
    "load_spec",
    "load_yaml",
    "overridden",
    "read_part",
]
