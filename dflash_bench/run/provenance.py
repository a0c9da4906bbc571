"""The manifest of a run: everything that a stranger needs to know to run it again, or to doubt it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dflash_bench.assets import PACKAGE, asset
from dflash_bench.records.machine import git_commit, machine, sha256_files, versions
from dflash_bench.records.manifest import SCHEMA_VERSION
from dflash_bench.run.prepare import Asked, Key, summary

if TYPE_CHECKING:
    from dflash_bench.run.experiment import Experiment


def describe(experiment: "Experiment", asked: dict[Key, Asked]) -> dict[str, Any]:
    """Return the manifest of `experiment`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "name": experiment.spec.name,
        "simulated": False,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "argv": list(experiment.argv),
        "spec_path": str(experiment.spec_path),
        "spec_sha256": _hash(experiment.spec_path),
        "unsupported": [entry.model_dump() for entry in experiment.plan.unsupported],
        "spec": experiment.spec.model_dump(mode="json"),
        "versions": versions(),
        "git": git_commit(PACKAGE),
        "machine": machine(experiment.spec.threads),
        "runner": experiment.runner.facts(),
        "models": experiment.runner.models(),
        "prompts": summary(asked),
        "files": _declarative_files(experiment, asked),
    }


def _declarative_files(experiment: "Experiment", asked: dict[Key, Asked]) -> dict[str, str]:
    files = {f"workloads/{name}": Path(entry.workload.path) for (name, _), entry in asked.items()}
    files[f"runners/{experiment.spec.runner}"] = asset("runners", f"{experiment.spec.runner}.yaml")
    return {name: _hash(path) for name, path in sorted(files.items()) if path.is_file()}


def _hash(path: Path) -> str:
    return next(iter(sha256_files([path]).values()))
