"""What a report shows: a frozen `Report`, built from a results folder's manifest, plan, cells and verdicts.

Everything here is read, nothing is computed from measurements: a number in a report is a number of `cells.json`.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dflash_bench.plan import Plan, Unsupported
from dflash_bench.records.manifest import read_spec
from dflash_bench.report.drift import Drift, read_drift
from dflash_bench.report.facts import Fact, flatten
from dflash_bench.report.group import Group, group_rows
from dflash_bench.report.repetition import repetition_notes
from dflash_bench.report.row import Row, read_row
from dflash_bench.spec import Spec

# Our own small models: the shape of their result is real, its size says nothing about a model that people serve.
SMALL_MODELS = frozenset({"lab", "markov"})


@dataclass(frozen=True)
class PromptSet:
    """How many prompts of a workload were asked, and how many were left out as too long."""

    name: str
    prompts: int
    left_out: int


@dataclass(frozen=True)
class Report:
    """One run, ready to be shown."""

    plan: Plan
    spec: Spec
    verdict: str
    sentence: str
    primary: str | None
    best_arms: Mapping[str, Sequence[str]]
    simulated: bool
    groups: tuple[Group, ...]
    drift: Drift | None
    provenance: Mapping[str, tuple[Fact, ...]]
    prompts: tuple[PromptSet, ...]
    started: str | None
    command: str
    spec_yaml: str

    @property
    def rows(self) -> tuple[Row, ...]:
        """Every (cell, arm), group by group."""
        return tuple(row for group in self.groups for row in group.rows)

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that stand against the baseline, in the plan's order."""
        return tuple(name for name in self.plan.arms if name != self.plan.baseline)

    @property
    def named_arms(self) -> tuple[str, ...]:
        """The same, those whose rule changes the text marked as LOSSY."""
        return tuple(
            f"{name} (LOSSY)" if self.plan.arms[name].lossy else name for name in self.arms
        )

    @property
    def repetition_notes(self) -> tuple[str, ...]:
        """Sentences about groups of cells whose texts repeat themselves."""
        return repetition_notes(self.groups)

    @property
    def small_models(self) -> bool:
        """Whether the target is one of the small models that this project ships."""
        return self.spec.target in SMALL_MODELS

    @property
    def unsupported(self) -> tuple[Unsupported, ...]:
        """What the runner cannot do, and why."""
        return self.plan.unsupported

    def is_baseline(self, row: Row) -> bool:
        """Tell whether `row` is what the other arms of its cell are compared with."""
        return row.arm == self.plan.baseline

    def is_among_best(self, row: Row) -> bool:
        """Tell whether `row` cannot be told from the fastest arm of its cell."""
        return row.arm in self.best_arms.get(row.cell.id, ())

    def arm_label(self, name: str) -> str:
        """Name an arm shortly: `block 8` where the block size alone tells the arms apart, else its name.

        An arm whose rule changes the text is called LOSSY wherever it is named.
        """
        arms = [arm for arm in self.plan.arms.values() if arm.name != self.plan.baseline]
        blocks = {arm.block_size for arm in arms}
        arm = self.plan.arms.get(name)
        if arm is None or name == self.plan.baseline:
            return name
        if len({arm.method for arm in arms}) > 1 or None in blocks or len(blocks) < len(arms):
            return f"{name} (LOSSY)" if arm.lossy else name
        return f"block {arm.block_size}{' (LOSSY)' if arm.lossy else ''}"

    @property
    def lossy_arms(self) -> tuple[str, ...]:
        """The arms whose rule changes the text."""
        return tuple(arm.name for arm in self.plan.arms.values() if arm.lossy)


def build_report(
    manifest: Mapping[str, Any],
    plan: Plan,
    cells: Sequence[Mapping[str, Any]],
    verdicts: Mapping[str, Any],
) -> Report:
    """Build a report from what a results folder holds, as read from its JSON files."""
    headline = verdicts.get("headline") or {}
    rows = [read_row(entry) for entry in cells]
    return Report(
        plan=plan,
        spec=read_spec(dict(manifest)),
        verdict=headline.get("verdict") or "UNPROVEN",
        sentence=headline.get("sentence") or "Nothing was measured yet.",
        primary=verdicts.get("primary"),
        best_arms=verdicts.get("best_arms") or {},
        simulated=bool(manifest.get("simulated")) or any(entry.get("simulated") for entry in cells),
        groups=group_rows(rows, plan.baseline),
        drift=read_drift(verdicts.get("drift")),
        provenance=_provenance(manifest),
        prompts=_prompt_sets(manifest),
        started=manifest.get("started"),
        command=_command(manifest.get("argv") or ()),
        spec_yaml=yaml.safe_dump(manifest["spec"], sort_keys=False, allow_unicode=True),
    )


def _provenance(manifest: Mapping[str, Any]) -> dict[str, tuple[Fact, ...]]:
    """Return where and with what it was measured, part by part; what the manifest lacks is left out."""
    parts = {
        "Machine": manifest.get("machine"),
        # Every package of an environment is in the manifest; a page of names is no use to a reader.
        "Runner": {
            name: value
            for name, value in (manifest.get("runner") or {}).items()
            if name != "packages"
        },
        "Versions": manifest.get("versions"),
        "Source": manifest.get("git"),
        "Models": manifest.get("models"),
        "Prompts (sha256)": {
            name: entry.get("sha256") for name, entry in (manifest.get("prompts") or {}).items()
        },
        "Files (sha256)": manifest.get("files"),
    }
    return {title: flatten(part) for title, part in parts.items() if part}


def _prompt_sets(manifest: Mapping[str, Any]) -> tuple[PromptSet, ...]:
    return tuple(
        PromptSet(name, entry.get("prompts", 0), entry.get("left_out") or 0)
        for name, entry in (manifest.get("prompts") or {}).items()
    )


def _command(argv: Sequence[str]) -> str:
    """Return `argv` as a line that a shell reads back the same; the program by its name, not its path."""
    words = list(argv)
    if words and Path(words[0]).name in {"dflash-bench", "__main__.py"}:
        words = words[1:]
    # A resumed run is repeated from its beginning.
    return shlex.join(["dflash-bench", *(word for word in words if word != "--resume")])
