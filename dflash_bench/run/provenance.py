"""The manifest of a run: everything that a stranger needs to know to run it again, or to doubt it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dflash_bench.assets import PACKAGE, asset, is_path
from dflash_bench.records.machine import git_commit, machine, sha256_files, versions
from dflash_bench.records.manifest import SCHEMA_VERSION
from dflash_bench.records.secrets import hidden_flags, without_secrets
from dflash_bench.run.prepare import Asked, Key, summary
from dflash_bench.spec import Spec

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
        "traits": {
            "nesting": experiment.runner.nesting,
            "couples_noise": experiment.runner.couples_noise,
        },
        "spec": _told(experiment.spec),
        "versions": versions(),
        "git": git_commit(PACKAGE),
        "machine": machine(experiment.spec.threads),
        "runner": experiment.runner.facts(),
        "models": experiment.runner.models(),
        "prompts": summary(asked),
        "files": _declarative_files(experiment, asked),
    }


def _told(spec: Spec) -> dict[str, Any]:
    """Return the spec as it is written down: variables and flags that are named like a secret lose their values."""
    told: dict[str, Any] = hidden_flags(spec.model_dump(mode="json"))
    told["server"]["env"] = without_secrets(told["server"]["env"])
    return told


def _declarative_files(experiment: "Experiment", asked: dict[Key, Asked]) -> dict[str, str]:
    files = {f"workloads/{name}": Path(entry.workload.path) for (name, _), entry in asked.items()}
    runner = experiment.spec.runner
    recipe = Path(runner) if is_path(runner) else asset("runners", f"{runner}.yaml")
    files[f"runners/{recipe.stem}"] = recipe
    return {name: _hash(path) for name, path in sorted(files.items()) if path.is_file()}


def _hash(path: Path) -> str:
    return next(iter(sha256_files([path]).values()))
