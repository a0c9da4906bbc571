"""What no server can be given, whatever the backend: said before anything is loaded or started."""

from collections.abc import Mapping
from pathlib import Path

from dflash_bench.errors import ConfigError
from dflash_bench.runners.model_config import check_block
from dflash_bench.spec import Arm, Spec


def address(spec: Spec, arm: Arm) -> str | None:
    """Return where the server of `arm` runs already; None where it is to be started."""
    return arm.base_url or spec.base_url


def blocks(spec: Spec, arm: Arm) -> tuple[int | None, ...]:
    """Return the block sizes at which `arm` is planned: (None,) where its backend chooses, none of plain decoding."""
    if arm.method == "ar":
        return ()
    swept = arm.block_size is None and spec.sweep.block_size
    return spec.sweep.block_size if swept else (arm.block_size,)


def check_blocks(spec: Spec, drafts: Mapping[tuple[str, str], Path]) -> None:
    """Raise ConfigError for a block that a DFlash drafter, of `drafts` by method and name, was not trained for."""
    for name, arm in spec.arms.items():
        folder = drafts.get((arm.method, arm.draft or ""))
        if arm.method == "dflash" and folder is not None:
            for block in blocks(spec, arm):
                check_block(name, block, folder)


def check_found(spec: Spec) -> None:
    """Raise ConfigError for what is said of servers that run already, and nobody would hand them."""
    for name, arm in spec.arms.items():
        url = address(spec, arm)
        if url is not None and arm.settings:
            raise ConfigError(
                f"arms.{name}.{next(iter(arm.settings))}: nobody hands it to the server at {url}, which runs already.",
                remedy="Remove it and start that server so, or remove base_url.",
            )
    if all(address(spec, arm) is not None for arm in spec.arms.values()):
        for key in ("flags", "env"):
            if getattr(spec.server, key):
                raise ConfigError(
                    f"server.{key}: is for servers that are started, and every arm has a base_url.",
                    remedy="Remove it, or remove base_url.",
                )
