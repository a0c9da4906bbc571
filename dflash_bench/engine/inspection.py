"""A checkpoint looked at without drafting a token: what it is, what it takes, what does not fit.

A drafter of another target, or one that is read with another RoPE or other taps than it was trained
with, raises no error and changes no output: it only costs acceptance. What the files can tell is told
here in two lists: *misfits*, with which it cannot draft for that target, and *doubts*, with which it can,
and probably badly.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dflash_bench.engine.describe import Description, TargetShape, describe, said_rope
from dflash_bench.engine.identify import Identity, identify
from dflash_bench.engine.pretrained import read_config, refuse_windows
from dflash_bench.errors import ConfigError


class Inspection(NamedTuple):
    """All that the files tell."""

    identity: Identity
    description: Description
    misfits: list[str]
    doubts: list[str]


def inspect(folder: Path, target: Path | None = None) -> Inspection:
    """Read the checkpoint in `folder` with the very loader that drafts, and hold it against `target`.

    Raises ConfigError for a checkpoint that no method here reads, naming file, key or tensor.
    """
    identity = identify(folder)
    description = describe(identity.method, folder)
    if target is None:
        return Inspection(identity, description, [], list(description.doubts))
    shape = read_target(target)
    doubts = [*description.doubts, *_doubts(description, shape)]
    return Inspection(identity, description, _misfits(description, shape), doubts)


def read_target(folder: Path) -> TargetShape:
    """Read a target's shape from its `config.json` alone; raises ConfigError for no supported model."""
    config = read_config(folder)
    refuse_windows(config, str(folder))
    return TargetShape(
        folder,
        config.hidden_size,
        config.vocab_size,
        config.num_hidden_layers,
        config.max_position_embeddings,
        config.rope_parameters,
    )


def _misfits(description: Description, target: TargetShape) -> list[str]:
    """Return what makes it impossible to draft for `target`, as the loader would say it."""
    try:
        description.fit(target)
    except ConfigError as error:
        return [error.message]
    return []


def _doubts(description: Description, target: TargetShape) -> list[str]:
    """Return what is allowed and probably wrong."""
    doubts = []
    if description.rope is not None and _angles(description.rope) != _angles(target.rope):
        doubts.append(
            f"its RoPE is {said_rope(description.rope)}, the target's is {said_rope(target.rope)}: right only if it"
            " was trained so"
        )
    usual = description.usual_taps(target.num_layers)
    for shift in (-1, 1):
        if description.taps and description.taps == tuple(tap + shift for tap in usual):
            doubts.append(
                f"it taps {list(description.taps)}, the usual layers {list(usual)} shifted by {shift:+d}: formats count"
                " taps from 0 or from 1, and nothing fails where they are mixed up"
            )
    if description.max_positions is not None and description.max_positions < target.max_positions:
        doubts.append(
            f"it was made for {description.max_positions:,} positions, the target has {target.max_positions:,}: expect"
            " less acceptance beyond"
        )
    return doubts


def _angles(rope: Mapping[str, Any]) -> dict[str, Any]:
    """Return what decides a RoPE's angles, in one form."""
    return {"rope_type": "default", **{key: v for key, v in rope.items() if v is not None}}
