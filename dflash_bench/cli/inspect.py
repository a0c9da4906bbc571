"""`dflash-bench inspect CHECKPOINT`: what a drafter is, what it takes, and whether it fits a target."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dflash_bench.errors import ConfigError

if TYPE_CHECKING:
    from dflash_bench.engine.inspection import Inspection

MISFIT = 2


@click.command(name="inspect")
@click.argument("checkpoint")
@click.option(
    "--target", help="The model that it is to draft for: one of ours, a folder or a hub id."
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def command(checkpoint: str, target: str | None, form: str) -> None:
    """Say what the drafter CHECKPOINT is, and what of it does not fit a target.

    CHECKPOINT is a folder, a hub id, or the name of a drafter of ours. Nothing is drafted and nothing of
    the target is read but its configuration and tokenizer. Exit code 2 if it does not fit.
    """
    from dflash_bench.runners.device import require_torch

    require_torch()
    from dflash_bench.engine.hub import local_folder
    from dflash_bench.engine.inspection import inspect
    from dflash_bench.lab.catalogue import resolve

    against = None if target is None else local_folder(resolve(target, "target"))
    found = inspect(local_folder(_place(checkpoint)), against)
    click.echo(json.dumps(_plain(found), indent=1) if form == "json" else _text(found, target))
    if found.misfits:
        raise click.exceptions.Exit(MISFIT)


def _place(checkpoint: str) -> str | Path:
    """Return the folder or hub id that is meant; raises ConfigError for what is neither."""
    from dflash_bench.lab.catalogue import looks_like_path, models

    ours = [m for m in models() if m.name == checkpoint and m.role != "target"]
    if len(ours) == 1:
        return ours[0].folder
    if ours:
        folders = ", ".join(str(model.folder) for model in ours)
        raise ConfigError(
            f"'{checkpoint}' is the name of {len(ours)} drafters of ours, of different methods.",
            remedy=f"Name the folder of one: {folders}.",
        )
    path = Path(checkpoint).expanduser()
    if path.is_dir() or (checkpoint.count("/") == 1 and not looks_like_path(checkpoint)):
        return checkpoint
    raise ConfigError(
        f"'{checkpoint}' is no folder.",
        remedy="Name the folder of a checkpoint, or a hub id of the form owner/name.",
    )


def _text(found: "Inspection", target: str | None) -> str:
    lines = [f"{found.identity.format} checkpoint, for `method: {found.identity.method}`", ""]
    lines += _table(found.description.facts)
    lines += ["", "in bf16:", *_table(_memory(found))]
    if target is not None:
        fits = "does not fit" if found.misfits else "fits"
        lines += ["", f"It {fits} the target {target}."]
    lines += [f"misfit: {text}" for text in found.misfits]
    lines += [f"doubt: {text}." for text in found.doubts]
    return "\n".join(lines)


def _memory(found: "Inspection") -> dict[str, str]:
    from dflash_bench.engine.describe import QWEN3_600M

    sizes = {"this": found.description.memory, "a draft model (Qwen3-0.6B's shape)": QWEN3_600M}
    return {
        name: f"{weights / 1e6:,.1f} MB of weights, {cached:,} bytes of cache per token"
        for name, memory in sizes.items()
        for weights, cached in [memory.in_bytes(2)]
    }


def _table(rows: Mapping[str, str]) -> list[str]:
    width = max(map(len, rows))
    return [f"  {name:<{width}}  {value}" for name, value in rows.items()]


def _plain(found: "Inspection") -> dict[str, Any]:
    weights, cached = found.description.memory.in_bytes(2)
    return {
        "method": found.identity.method,
        "format": found.identity.format,
        "facts": dict(found.description.facts),
        "memory_bf16": {"weights_bytes": weights, "cache_bytes_per_token": cached},
        "misfits": found.misfits,
        "doubts": found.doubts,
    }
