"""What an in-process runner needs of this machine: torch, and the device that the config names."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from dflash_bench.errors import ConfigError, InfrastructureError


def require_torch() -> None:
    """Raise ConfigError with the command that installs what is missing."""
    for package in ("torch", "transformers"):
        try:
            found = find_spec(package)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise ConfigError(
                f"This needs {package}, which is not installed.",
                remedy="Install it with: pip install 'torch>=2.11' 'transformers>=5.17,<6' 'safetensors>=0.5'",
            )


def check_device(device: str) -> None:
    """Raise ConfigError unless `device` is a processor or a GPU that torch finds here; make that one current."""
    import torch

    try:
        kind = torch.device(device).type
    except RuntimeError:
        kind = ""
    if kind not in ("cpu", "cuda"):
        raise ConfigError(f"device: '{device}' is not known.", remedy="Use cpu or cuda.")
    if kind == "cpu":
        return
    if not torch.cuda.is_available():
        raise ConfigError(
            f"device: '{device}' was asked for, but torch finds no GPU here.",
            remedy="Use device: cpu, or install a CUDA build of torch.",
        )
    index, found = torch.device(device).index or 0, torch.cuda.device_count()
    if index >= found:
        raise ConfigError(
            f"device: '{device}' was asked for, but torch finds {found} GPUs here.",
            remedy=f"Use cuda:0 to cuda:{found - 1}.",
        )
    # Events are recorded and waited for on the current device.
    torch.cuda.set_device(index)


def check_threads(threads: int) -> None:
    """Raise ConfigError if there are fewer processors than `threads`."""
    found = os.cpu_count() or 1
    if threads > found:
        raise ConfigError(
            f"threads: {threads} were asked for, and this machine has {found} processors.",
            remedy=f"Use at most {found}; 1 is the steadiest on a machine that others use.",
        )


@contextmanager
def memory_errors(what: str) -> Iterator[None]:
    """Turn a failed allocation into a sentence about `what` was being done."""
    import torch

    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and not _no_memory(error):
            raise
        raise InfrastructureError(
            f"{what}: there is not enough memory: {str(error).strip().splitlines()[0]}",
            remedy="Lower sweep.batch_size, sweep.context_length or sampling.max_new_tokens,"
            " then go on in a new folder.",
        ) from error


def _no_memory(error: RuntimeError) -> bool:
    """Tell torch's failed allocation on a CPU, a plain RuntimeError, by its words."""
    return "can't allocate memory" in str(error) or "not enough memory" in str(error)


def device_name(device: str) -> str | None:
    """Return the GPU's name; None on a CPU."""
    import torch

    return torch.cuda.get_device_name(device) if device.startswith("cuda") else None
