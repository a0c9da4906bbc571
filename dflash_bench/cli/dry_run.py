"""What `sweep --dry-run` prints: the grid, the arms, and the order of every visit."""

from typing import Any

from dflash_bench.records.secrets import hidden_words
from dflash_bench.spec import LOSSY_RULES


def plan_text(plan: dict[str, Any]) -> str:
    """Return the plan as text for a person."""
    measured = [visit for visit in plan["visits"] if visit["role"] == "measure"]
    lines = [
        f"{plan['name']} on runner {plan['runner']}: {len(plan['cells'])} cells x {len(plan['arms'])} arms"
        f" x {plan['rounds']} rounds = {len(measured)} measured visits"
        f" ({len(plan['visits'])} with warm-up and controls); baseline {plan['baseline']}.",
        *_starts(plan),
        "",
        "arms",
        *(f"  {_arm(arm)}" for arm in plan["arms"].values()),
        "",
        "cells, and the order of the arms in each round (round 0 is discarded)",
    ]
    for cell in plan["cells"]:
        lines.append(f"  {cell}")
        for number in range(plan["rounds"] + 1):
            order = [
                visit["arm"]
                for visit in plan["visits"]
                if visit["cell"] == cell
                and visit["round"] == number
                and visit["role"] in ("discard", "measure")
            ]
            lines.append(f"    round {number}: {' '.join(order)}")
    if plan["unsupported"]:
        lines += ["", "not supported by this runner"]
        lines += [
            f"  {entry['arm']} in {entry['cell']}: {entry['reason']}"
            for entry in plan["unsupported"]
        ]
    return "\n".join(lines)


def _starts(plan: dict[str, Any]) -> list[str]:
    """Say how often a backend is started, where it is; nothing where arms stay open."""
    starts = {visit["start"] for visit in plan["visits"]} - {None}
    if not starts:
        return []
    return [
        f"{len(starts)} starts of the backend: one for each arm in each round, which then visits all of its cells."
    ]


def _arm(arm: dict[str, Any]) -> str:
    parts = [f"{arm['name']}: method {arm['method']}"]
    if arm["draft"]:
        parts.append(f"draft {arm['draft']}")
    if arm["block_size"]:
        parts.append(f"block_size {arm['block_size']}, num_draft_tokens {arm['num_draft_tokens']}")
    elif arm["method"] != "ar":
        parts.append("block_size is the method's own")
    settings = {**arm["settings"], "flags": hidden_words(arm["settings"].get("flags", ()))}
    parts += [f"{key} {_text(value)}" for key, value in settings.items() if value]
    if arm["verify"] is not None:
        lossy = " (LOSSY)" if arm["verify"] in LOSSY_RULES else ""
        parts.append(f"verify {arm['verify']}{lossy}")
    if arm["base_url"] is not None:
        parts.append(f"base_url {arm['base_url']}")
    return ", ".join(parts)


def _text(value: Any) -> str:
    """Return a setting as it is read aloud: a tree as `top_k 4 depth 3`, its unset parts left out; flags as words."""
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    if not isinstance(value, dict):
        return str(value)
    return " ".join(f"{key} {part}" for key, part in value.items() if part is not None) or "default"
