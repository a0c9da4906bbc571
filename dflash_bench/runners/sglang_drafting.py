"""An arm as SGLang is told of it: what it may say, and the flags that this is.

The shape of a draft is SGLang's (arg_groups/speculative_hook.py and fields/spec.py of 0.5.23):

num-draft-tokens   nodes of one verification, the anchor among them: our `block_size`, for a DFlash block too
num-steps          drafts in a row; of a chain one less than its nodes, of a tree `depth`
eagle-topk         branches at a node; 1 is a chain

An arm's `options` are SGLang's own `speculative_...` settings, and become flags. Those that accept drafts which the
target would not have written are refused by name, wherever they stand.
"""

from collections.abc import Sequence
from typing import Any

from dflash_bench.errors import ConfigError
from dflash_bench.plan import PlannedArm
from dflash_bench.runners.launch import Value
from dflash_bench.spec import Arm, TreeSpec

_SHAPED = {"eagle3", "draft_model", "mtp"}
_NEEDS_DRAFT = {"dflash", "eagle3", "draft_model"}
# NotImplementedError for the others: arg_groups/speculative_hook.py, _handle_eagle_family.
REJECTS = {"eagle3", "mtp"}
# Options that the arm's own words set.
_OURS = {
    "speculative_algorithm": "method",
    "speculative_draft_model_path": "draft",
    "speculative_num_draft_tokens": "block_size",
    "speculative_dflash_block_size": "block_size",
    "speculative_num_steps": "tree.depth",
    "speculative_eagle_topk": "tree.top_k",
    "speculative_use_rejection_sampling": "verify",
}
_THRESHOLDS = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")


def check_arm(name: str, arm: Arm, blocks: Sequence[int], samples: bool) -> None:
    """Raise ConfigError for what SGLang has not, or what would change texts.

    `blocks` are the sizes the arm is run at; it `samples` where a temperature is above 0, and rules differ.
    """
    where = f"arms.{name}"
    for key in arm.settings:
        if key not in _settings(arm.method):
            raise ConfigError(
                f"{where}.{key}: SGLang has no such setting for {arm.method}.",
                remedy="Remove it, or say it in SGLang's own words under `options`.",
            )
    if arm.method in _NEEDS_DRAFT and arm.draft is None:
        raise ConfigError(
            f"{where}.draft: is missing; {arm.method} drafts with a model of its own.",
            remedy="Name its folder or hub id.",
        )
    if arm.verify == "typical":
        raise ConfigError(
            f"{where}.verify: typical is not a rule of SGLang's.",
            remedy="Remove it; SGLang keeps the target's law.",
        )
    if arm.verify == "reject" and samples and arm.method not in REJECTS:
        raise ConfigError(
            f"{where}.verify: SGLang has no flag for 'reject' with {arm.method}; it verifies by a rule of its own.",
            remedy="Remove it.",
        )
    if arm.tree is not None:
        _check_tree(where, arm.tree, blocks)
    check_flags(f"{where}.flags", arm.flags or ())
    for key, value in (arm.options or {}).items():
        _check_option(f"{where}.options.{key}", key, value)


def shape(arm: PlannedArm) -> dict[str, Value]:
    """Return the shape of a chain or tree as SGLang names it; None throughout where the arm leaves it to SGLang."""
    tree = arm.settings.get("tree") or {}
    chain = None if arm.block_size is None else arm.block_size - 1
    return {
        "num_steps": tree.get("depth", chain),
        "eagle_topk": tree.get("top_k", None if chain is None else 1),
    }


def method_words(arm: PlannedArm, rejects: bool) -> tuple[str, ...]:
    """Return the flags that an arm's options are, and its rule where the user asked for rejection.

    EAGLE-3 with a reduced vocabulary fails under that flag, so that it is nobody's default.
    """
    words: list[str] = []
    if rejects and arm.method in REJECTS:
        words.append("--speculative-use-rejection-sampling")
    for key, value in (arm.settings.get("options") or {}).items():
        flag = "--" + key.replace("_", "-")
        words += [flag] if value is True else [flag, str(value)]
    return tuple(words)


def _settings(method: str) -> set[str]:
    if method == "ar":
        return {"flags", "matched"}
    return {"options", "flags", "tree"} if method in _SHAPED else {"options", "flags"}


def _check_tree(where: str, tree: TreeSpec, blocks: Sequence[int]) -> None:
    """SGLang wants a tree whole (an assertion in _handle_eagle_family), and cannot verify more nodes than it drafts."""
    depth, top_k = tree.depth, tree.top_k
    if depth is None or top_k is None or not blocks:
        raise ConfigError(
            f"{where}.tree: SGLang takes depth, top_k and a block_size together, or none of them.",
            remedy="Set all three; block_size counts the nodes that are verified, the anchor among them.",
        )
    # Behind each of the top_k nodes that a level keeps, top_k are drafted (speculative/eagle_utils.py).
    most = 1 + top_k + (depth - 1) * top_k**2
    if max(blocks) > most:
        raise ConfigError(
            f"{where}.block_size: {max(blocks)} is above the {most} nodes of depth {depth} and top_k {top_k}.",
            remedy="Lower it, or widen the tree.",
        )
    if top_k == 1 and min(blocks) < most:
        raise ConfigError(
            f"{where}.tree: a chain of depth {depth} has {most} nodes, and block_size is {min(blocks)}.",
            remedy="Leave `tree` out: block_size alone makes a chain.",
        )


def _check_option(where: str, key: str, value: Any) -> None:
    if key in _OURS:
        raise ConfigError(
            f"{where}: is what {_OURS[key]} says.", remedy=f"Set {_OURS[key]} of the arm instead."
        )
    if key in _THRESHOLDS and value != 1.0:
        raise ConfigError(
            f"{where}: {value} is lossy: below 1 drafts are accepted that the target would not have written.",
            remedy="Remove it; 1 keeps the target's law.",
        )
    if key == "speculative_adaptive" and value:
        raise ConfigError(
            f"{where}: under it SGLang does not tell how many drafts were verified.",
            remedy="Remove it, and compare fixed lengths as arms.",
        )
    if not key.startswith("speculative_"):
        raise ConfigError(
            f"{where}: is not a setting of a method; SGLang's begin with speculative_.",
            remedy=f"Write words of the command under `flags`: [--{key.replace('_', '-')}, ...].",
        )
    if value is not True and (isinstance(value, bool) or not isinstance(value, str | int | float)):
        raise ConfigError(
            f"{where}: {value!r} cannot be a flag's value.",
            remedy="Give a text or a number, or true.",
        )


def check_flags(where: str, flags: tuple[str, ...]) -> None:
    """Refuse lossy thresholds among raw words of a command, which take their value as the next word or behind `=`."""
    for place, word in enumerate(flags):
        flag, equals, told = word.partition("=")
        if flag.removeprefix("--").replace("-", "_") not in _THRESHOLDS:
            continue
        value = told if equals else next(iter(flags[place + 1 :]), "")
        try:
            lossless = float(value) == 1.0
        except ValueError:
            lossless = False
        if not lossless:
            raise ConfigError(
                f"{where}: {flag} {value} is lossy: below 1 it accepts drafts that the target would not have written.",
                remedy="Remove it; 1 keeps the target's law.",
            )
