"""MLX: mlx-lm's own generation, its speculative loop, and the authors' DFlash loop. One request at a time."""

from importlib import import_module
from typing import Any

from .installed import Refused as Refused
from .installed import installed
from .mlx_dflash import DFlash, Matched
from .mlx_drafted import Drafted
from .mlx_plain import Plain

KINDS: dict[str, type[Plain]] = {"ar": Plain, "draft_model": Drafted, "dflash": DFlash}


def versions() -> dict[str, str | None]:
    """Return the versions of what this drives; None is not installed."""
    return installed("mlx", "mlx-lm", "dflash")


def load(settings: dict[str, Any]) -> Plain:
    """Load the target, and what the arm drafts with."""
    mx = import_module("mlx.core")
    # mlx-lm makes its stream at import, on the device that is the default one then.
    mx.set_default_device(mx.cpu if settings["device"] == "cpu" else mx.gpu)
    kind = Matched if settings["matched"] else KINDS[settings["method"]]
    return kind(settings)
