"""What the machine has: GPUs and the memory in use on them, as `nvidia-smi` tells; none where there is no driver."""

import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass

from dflash_bench.errors import InfrastructureError

_FIELDS = ("index", "name", "driver_version", "memory.total", "memory.used")
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU. `memory_used_bytes` counts every process on it; None where the driver does not say."""

    index: int
    name: str
    driver: str
    memory_bytes: int | None
    memory_used_bytes: int | None


def gpus() -> list[Gpu]:
    """Return the NVIDIA GPUs, none where there is no driver.

    Raises InfrastructureError where `nvidia-smi` is there and fails: a GPU that cannot be asked is not "no GPU".
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InfrastructureError(f"nvidia-smi did not answer: {error}.", remedy=_REMEDY) from error
    # 6: "a query to find an object was unsuccessful"; that, or no row, is a driver without a GPU.
    if done.returncode == 6 or "No devices were found" in done.stdout:
        return []
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines() or ["nothing"]
        raise InfrastructureError(
            f"nvidia-smi ended with exit code {done.returncode} and said: {said[0]}", remedy=_REMEDY
        )
    return parse(done.stdout)


# Drivers call the last one "throttle" or "event" reasons by their age.
_STATE = ("index", "clocks.sm", "clocks.mem", "power.draw", "temperature.gpu")
_REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")


def gpu_states() -> list[dict[str, str]] | None:
    """Return each GPU's clocks (MHz), power (W), temperature and throttle reasons, as the driver prints them.

    None where there is no driver, or it does not tell: a reading beside a measurement, never a reason to lose one.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    for reasons in _REASONS:
        query = ",".join((*_STATE, reasons))
        command = [program, f"--query-gpu={query}", "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode == 0:
            rows = [line.split(",") for line in done.stdout.splitlines() if line.strip()]
            names = (*_STATE, "throttle_reasons")
            return [dict(zip(names, map(str.strip, row), strict=True)) for row in rows]
    return None


def parse(table: str) -> list[Gpu]:
    """Read the rows that `nvidia-smi --query-gpu` prints for `_FIELDS`; memory is in MiB, or "[N/A]"."""
    found = []
    for line in filter(None, map(str.strip, table.splitlines())):
        index, name, driver, total, used = (cell.strip() for cell in line.split(","))
        found.append(Gpu(int(index), name, driver, _bytes(total), _bytes(used)))
    return found


def variants(has_gpu: bool | None = None) -> list[str]:
    """Return the kinds of machine that this one is, best first: cuda, metal, cpu; None asks the driver for a GPU."""
    found = ["cpu"]
    if sys.platform == "darwin" and platform.machine() == "arm64":
        found.insert(0, "metal")
    if bool(gpus()) if has_gpu is None else has_gpu:
        found.insert(0, "cuda")
    return found


def _bytes(mebibytes: str) -> int | None:
    return int(mebibytes) * _MIB if mebibytes.isdigit() else None


_REMEDY = "Run nvidia-smi by hand; the driver has to work, or be absent."
