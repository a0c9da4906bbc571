"""`dflash-bench doctor`: what this machine is, which backends are ready on it, and what makes the others so."""

import json
import platform
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dflash_bench.runners.diagnosis import Diagnosis


@click.command(name="doctor")
@click.option(
    "--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def command(style: str) -> None:
    """Say what this machine is, which backends are ready on it, and what is missing for the others.

    Before its methods stands how we verified them: live (they ran), recorded (on texts of a real server), from source
    (read only); what ran on a CPU is live there alone. What a backend needs beside its packages cannot be looked up, so
    it is named. Below a backend that is not ready stands the command that makes it so. Nothing is installed or started.
    """
    from dataclasses import asdict

    from dflash_bench.runners.diagnosis import diagnoses
    from dflash_bench.runners.machine import variants

    facts = _machine()
    found = diagnoses(None if facts["gpus"] is None else variants(has_gpu=bool(facts["gpus"])))
    if style == "json":
        backends = [asdict(entry) for entry in found]
        click.echo(json.dumps({"machine": facts, "backends": backends}, indent=1))
        return
    for name, value in _sentences(facts):
        click.echo(f"{name:<8}{value}")
    for entry in found:
        click.echo(f"\n{_text(entry)}")


def _machine() -> dict[str, Any]:
    import psutil

    from dflash_bench.errors import InfrastructureError
    from dflash_bench.records.machine import machine
    from dflash_bench.runners.environments import home
    from dflash_bench.runners.machine import gpus

    told = machine(threads=1)
    facts = {name: told[name] for name in ("system", "cpu", "cores", "memory_bytes")}
    facts["memory_free_bytes"] = psutil.virtual_memory().available
    facts |= {"python": platform.python_version(), "interpreter": sys.executable}
    facts |= {"home": str(home()), "home_free_bytes": _free(home())}
    try:
        facts["gpus"] = [vars(gpu) for gpu in gpus()]
    except InfrastructureError as error:
        facts |= {"gpus": None, "gpu_error": error.message}
    return facts


def _free(folder: Path) -> int:
    """Return the free bytes of the disk that holds `folder`, which need not exist yet."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(there).free


def _sentences(facts: dict[str, Any]) -> list[tuple[str, str]]:
    memory = f"{_gb(facts['memory_bytes'])}, {_gb(facts['memory_free_bytes'])} free"
    rows = [
        ("system", facts["system"]),
        ("CPU", f"{facts['cpu']}, {facts['cores']} cores, memory {memory}"),
    ]
    if facts["gpus"] is None:
        rows.append(("GPU", f"cannot be asked: {facts['gpu_error']}"))
    for gpu in facts["gpus"] or []:
        used = f"{_gb(gpu['memory_bytes'])}, {_gb(gpu['memory_used_bytes'])} in use"
        rows.append(
            ("GPU", f"{gpu['index']}: {gpu['name']}, driver {gpu['driver']}, memory {used}")
        )
    if facts["gpus"] == []:
        rows.append(("GPU", "none (nvidia-smi finds none)"))
    rows.append(("Python", f"{facts['python']} ({facts['interpreter']})"))
    rows.append(("home", f"{facts['home']}, {_gb(facts['home_free_bytes'])} free on its disk"))
    return rows


def _text(found: "Diagnosis") -> str:
    what = ", ".join(filter(None, (found.version, found.variant)))
    lines = [f"{found.name}: {found.status}" + (f" ({what})" if what else "")]
    by_verified: dict[str, list[str]] = {}
    for method, verified in found.methods.items():
        by_verified.setdefault(verified, []).append(method)
    lines += [f"  {verified}: {', '.join(names)}" for verified, names in by_verified.items()]
    told = {
        f"not in variant {found.variant}": ", ".join(found.without),
        "lacks": found.lacks,
        "needs": found.needs,
        "note": found.note,
    }
    lines += [f"  {word}: {text}" for word, text in told.items() if text]
    if found.fix:
        lines.append(f"  -> {found.fix}")
    return "\n".join(lines)


def _gb(count: int | None) -> str:
    return "unknown" if count is None else f"{count / 1e9:.1f} GB"
