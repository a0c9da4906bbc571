"""What an in-process runner needs of this machine: torch, and the device that the config names."""

from importlib.util import find_spec

from dflash_bench.errors import ConfigError


def require_torch() -> None:
    """Raise ConfigError with the command that installs what is missing."""
    for package in ("torch", "transformers"):
        try:
            found = find_spec(package)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise ConfigError(
                f"runner: reference needs {package}, which is not installed.",
                remedy='Install it with: pip install "dflash-bench[reference]"',
            )


def check_device(device: str) -> None:
    """Raise ConfigError unless `device` is a processor or a GPU that torch finds here."""
    import torch

    try:
        kind = torch.device(device).type
    except RuntimeError:
        kind = ""
    if kind not in ("cpu", "cuda"):
        raise ConfigError(f"device: '{device}' is not known.", remedy="Use cpu or cuda.")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            f"device: '{device}' was asked for, but torch finds no GPU here.",
            remedy="Use device: cpu, or install a CUDA build of torch.",
        )


def device_name(device: str) -> str | None:
    """Return the GPU's name; None on a CPU."""
    import torch

    return torch.cuda.get_device_name(device) if device.startswith("cuda") else None
