"""What a results folder says about itself: `manifest.json`, written once, before the first visit; the plan follows.

A folder belongs to one experiment. A run that resumes must ask the same question of the same files on the same machine;
anything else is refused with what differs, since its records could not be compared with those already there.
"""

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dflash_bench.errors import ConfigError
from dflash_bench.plan import Plan, make_plan
from dflash_bench.records.store import disk_errors
from dflash_bench.spec import Spec, explain

SCHEMA_VERSION = 1
FILE = "manifest.json"
PLAN_FILE = "plan.json"

# What must be equal for records to stand side by side. The rest (load, argv, time) is for the reader.
SAME = ("schema_version", "spec", "versions", "git", "runner", "models", "prompts", "files")
SAME_MACHINE = ("cpu", "cores", "threads")


def write_json(path: Path, content: Any) -> None:
    """Write `content` so that a crash leaves the old file or the new one, never half of it."""
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write `text` so that a crash leaves the old file or the new one, never half of it."""
    part = path.with_name(f"{path.name}.part")
    with disk_errors(path):
        part.write_text(text, encoding="utf-8")
        part.replace(path)


def read_json(path: Path) -> Any:
    """Read one of a results folder's JSON files."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(
            f"{path}: there is no such file, so {path.parent} is not a results folder.",
            remedy="Give the folder that `dflash-bench sweep` wrote, such as results/quickstart.",
        ) from None
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror}.", remedy="Check the file."
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: is not JSON: {error}.", remedy="Restore the file.") from None


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of `folder`; a newer schema than ours is refused."""
    manifest = read_json(folder / FILE)
    found = manifest.get("schema_version") if isinstance(manifest, dict) else None
    if found != SCHEMA_VERSION:
        raise ConfigError(
            f"{folder / FILE}: schema_version is {found}, and this version reads {SCHEMA_VERSION}.",
            remedy="Read it with the version of dflash-bench that wrote it, or upgrade.",
        )
    return dict(manifest)


def read_spec(manifest: dict[str, Any]) -> Spec:
    """Return the resolved spec that a manifest holds."""
    try:
        return Spec.model_validate(manifest.get("spec"))
    except ValidationError as error:
        raise ConfigError(
            f"{FILE}: spec.{explain(error, Spec)}", remedy="The file was edited; restore it."
        ) from None


def planned(manifest: dict[str, Any]) -> Plan:
    """Return the plan of the run that a manifest describes: its spec's, without what its runner could not do.

    `traits` are what the order depended on: the runner's nesting, and whether it couples noise.
    """
    known = manifest.get("unsupported") or []
    refused = {(entry["arm"], entry["cell"]): entry["reason"] for entry in known}
    traits = manifest.get("traits") or {}
    return make_plan(
        read_spec(manifest), lambda arm, cell: refused.get((arm.name, cell.id)), **traits
    )


def differences(there: dict[str, Any], here: dict[str, Any]) -> list[str]:
    """Say what differs between a folder's manifest and that of the run that wants to go on in it."""
    found = [
        line for key in SAME for line in _compare(key, there.get(key), _as_json(here.get(key)))
    ]
    machines = [manifest.get("machine") or {} for manifest in (there, here)]
    for key in SAME_MACHINE:
        found += _compare(f"machine.{key}", machines[0].get(key), machines[1].get(key))
    return found


def _as_json(value: Any) -> Any:
    """Return `value` as it reads back from a file: tuples become lists."""
    return json.loads(json.dumps(value))


def _compare(key: str, there: Any, here: Any) -> list[str]:
    if isinstance(there, dict) and isinstance(here, dict):
        return [
            line
            for name in sorted(there.keys() | here.keys())
            for line in _compare(f"{key}.{name}", there.get(name), here.get(name))
        ]
    return [] if there == here else [f"{key} was {there!r}, is {here!r}"]
