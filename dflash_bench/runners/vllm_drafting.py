"""An arm in vLLM's words: `--speculative-config`, one JSON (vllm/config/speculative.py of 0.32.0 and 0.33.0).

Method, drafter and drafts per step are the arm's; the user's own `options` pass through, but for what the arm says
already and for what changes the law of the text, which is refused by name. A suffix tree remembers earlier answers, and
a benchmark asks the same prompts in every round: it would draft them by heart. Here it keeps none, unless the user says
otherwise.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dflash_bench.errors import ConfigError
from dflash_bench.plan import PlannedArm
from dflash_bench.runners.model_config import block_size_of

# Keys of the JSON that the arm's own words set.
_OURS = {
    "method": "method",
    "model": "draft",
    "num_speculative_tokens": "block_size",
    "prompt_lookup_min": "ngram_min",
    "prompt_lookup_max": "ngram_max",
}
# Values of options under which texts are no longer the target's: vLLM's docstrings say so of `fly`; `synthetic` accepts
# by a coin; the last is what older versions call typical acceptance.
_LOSSY = {
    "rejection_sample_method": {"fly", "synthetic"},
    "acceptance_method": {"typical_acceptance_sampler"},
}
_LOSSLESS_REMEDY = "Take 'standard' or 'block', which keep the target's law."
_SETTINGS = {"ar": {"flags", "matched"}, "ngram": {"ngram_min", "ngram_max", "options", "flags"}}
_DRAFTING = {"options", "flags"}
_NEEDS_DRAFT = {"dflash", "eagle3", "medusa", "draft_model"}


def check_settings(name: str, method: str, draft: str | None, settings: Mapping[str, Any]) -> None:
    """Raise ConfigError for settings of the arm `name` that vLLM has not, or that would change its texts."""
    known = _SETTINGS.get(method, _DRAFTING)
    for key in settings:
        if key not in known:
            raise ConfigError(
                f"arms.{name}.{key}: vLLM has no such setting for {method}.",
                remedy="Remove it, or say it in vLLM's own words under `options`.",
            )
    if method in _NEEDS_DRAFT and draft is None:
        raise ConfigError(
            f"arms.{name}.draft: is missing; {method} drafts with a model of its own.",
            remedy="Name its folder or hub id.",
        )
    options: Mapping[str, Any] = settings.get("options") or {}
    for key, value in options.items():
        if key in _OURS:
            raise ConfigError(
                f"arms.{name}.options.{key}: is what {_OURS[key]} says.",
                remedy=f"Set arms.{name}.{_OURS[key]} instead.",
            )
        if key not in _LOSSY:
            continue
        if not isinstance(value, str):
            raise ConfigError(
                f"arms.{name}.options.{key}: {value!r} is not a word.", remedy=_LOSSLESS_REMEDY
            )
        if value in _LOSSY[key]:
            raise ConfigError(
                f"arms.{name}.options.{key}: {value} is lossy: its texts are not the target's.",
                remedy=_LOSSLESS_REMEDY,
            )


def check_flags(where: str, flags: Iterable[str]) -> None:
    """Refuse words of a command by which vLLM would be told of drafting past the arm: none of its checks would hold.

    vLLM takes `_` for `-`, `--speculative-config.method` for a key of the JSON, `--spec-method` and its like for three
    of them, and argparse any beginning of a flag that is one flag's alone.
    """
    for word in flags:
        flag = word.replace("_", "-")
        drafting = flag.startswith(("--spec", "-sc")) and not flag.startswith("--specialize")
        if drafting:
            raise ConfigError(
                f"{where}: {word} says how an arm drafts, past the arm's own keys.",
                remedy="Say it with method, draft, block_size and `options` of the arm.",
            )


def speculative_config(arm: PlannedArm, draft: Path | None) -> dict[str, Any]:
    """Return vLLM's `--speculative-config` for `arm`, whose drafter lies in `draft`; the user's options come last."""
    asked = {
        "method": arm.method,
        "model": None if draft is None else str(draft),
        "num_speculative_tokens": _drafts(arm, draft),
        "prompt_lookup_min": arm.settings.get("ngram_min"),
        "prompt_lookup_max": arm.settings.get("ngram_max"),
        "suffix_decoding_max_cached_requests": 0 if arm.method == "suffix" else None,
    }
    told = {key: value for key, value in asked.items() if value is not None}
    return told | dict(arm.settings.get("options") or {})


def _drafts(arm: PlannedArm, draft: Path | None) -> int | None:
    """Return the drafts of a step: the arm's, else what a DFlash drafter was trained for, else vLLM's own default."""
    if arm.num_draft_tokens is not None:
        return arm.num_draft_tokens
    trained = block_size_of(draft) if arm.method == "dflash" and draft is not None else None
    if arm.method == "dflash" and trained is None:
        raise ConfigError(
            f"arms.{arm.name}.block_size: is missing, and {draft}/config.json does not tell it.",
            remedy="Set it.",
        )
    return None if trained is None else trained - 1
