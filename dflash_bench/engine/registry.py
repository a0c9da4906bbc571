"""Methods by name: what each is, what it can be asked, and how it is built.

Everything but the building is known without torch, so that a config is judged before anything is loaded. The registry
is open: a package of yours may `register("mine", Method(build_mine, "what it does"))` and write `method: mine`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from dflash_bench.errors import ConfigError, did_you_mean

if TYPE_CHECKING:  # the names of the methods can be listed where torch is not installed
    from dflash_bench.engine.methods.base import Drafter
    from dflash_bench.engine.target import Target

Settings = Mapping[str, object]
Loaded = dict[object, Any]
"""Checkpoints that are in memory already: whoever builds several drafters keeps it between the calls."""
Builder = Callable[["Target", Settings, Loaded], "Drafter"]
"""(target, the arm's settings: draft, block_size, ...; what is loaded) -> a drafter for that target."""
DraftRole = Literal["dflash", "eagle3", "medusa", "draft_model"]


@dataclass(frozen=True)
class Method:
    """A way to draft.

    settings          the keys of an arm that it knows; those that are absent or None have its own defaults
    needs_draft       whether `draft` must name a checkpoint
    role              which of the shipped models a bare name in `draft` means
    has_distribution  whether it can draw its drafts from a law that it tells: what the rule `reject` is for
    has_tree          whether it can draft a tree
    has_typical       whether the lossy rule `typical` was made for it
    """

    builder: Builder
    title: str = ""
    settings: frozenset[str] = frozenset({"draft", "block_size"})
    needs_draft: bool = False
    role: DraftRole | None = None
    has_distribution: bool = False
    has_tree: bool = False
    has_typical: bool = False


def build(
    method: str, target: "Target", settings: Settings, loaded: Loaded | None = None
) -> "Drafter":
    """Build the drafter of `method`; drafters of one checkpoint share its weights through `loaded`.

    Raises ConfigError for an unknown method, or settings and a checkpoint that do not fit.
    """
    return find(method).builder(target, settings, {} if loaded is None else loaded)


def find(method: str) -> Method:
    """Return the method of that name, or raise ConfigError."""
    if method not in _METHODS:
        raise ConfigError(f"There is no method '{method}'.", remedy=did_you_mean(method, _METHODS))
    return _METHODS[method]


def check(method: str, settings: Settings, rule: str | None = None) -> None:
    """Refuse, before anything is loaded, settings or a rule that `method` does not have.

    Raises ConfigError with what to write instead. A setting that is None is as good as absent.
    """
    known = find(method)
    told = {name: value for name, value in settings.items() if value is not None}
    if "tree" in told and not known.has_tree:
        trees = [name for name, other in _METHODS.items() if other.has_tree]
        raise ConfigError(
            f"tree: method '{method}' drafts no trees.",
            remedy=f"Remove the key; methods with trees: {', '.join(trees)}.",
        )
    if unknown := sorted(told.keys() - known.settings - {"tree"}):
        has = f"It has: {', '.join(sorted(known.settings))}." if known.settings else "It has none."
        raise ConfigError(
            f"{unknown[0]}: method '{method}' has no such setting.", remedy=f"Remove the key. {has}"
        )
    if known.needs_draft and "draft" not in told:
        raise ConfigError(
            f"draft: is missing; method '{method}' needs a drafter.",
            remedy="Write draft: with a model of ours (lab), a folder or a hub id.",
        )
    _check_rule(method, known, told, rule)


def _check_rule(method: str, known: Method, told: Settings, rule: str | None) -> None:
    if rule == "typical" and not known.has_typical:
        others = "match" if _without_a_law(known, told) else "match or reject"
        raise ConfigError(
            f"verify: 'typical' is a rule for medusa, not for '{method}'.",
            remedy=f"Write verify: {others}, which keeps the target's law.",
        )
    if rule == "reject" and (why := _without_a_law(known, told)):
        raise ConfigError(
            f"verify: 'reject' needs drafts that were drawn from a known law, and {why}.",
            remedy="Write verify: match for this arm: the law of its text is the same.",
        )


def _without_a_law(known: Method, told: Settings) -> str:
    """Say why drafts with these settings are chosen, not drawn; empty if they are drawn."""
    steps = told.get("denoise_steps")
    if not known.has_distribution:
        return "this method chooses them without one"
    if isinstance(steps, int) and steps > 1:
        return f"denoise_steps {steps} chooses them step by step"
    return "a block of Gaussian noise is denoised" if told.get("noise") == "gaussian" else ""


def register(name: str, method: Method) -> None:
    """Make `method` known by `name`, which must be free."""
    if name in _METHODS:
        raise ValueError(f"method {name!r} is registered already")
    _METHODS[name] = method


def methods() -> dict[str, Method]:
    """Return all methods by name."""
    return dict(_METHODS)


def _shipped(module: str) -> Builder:
    """Return the `build` of a module of `engine/methods`, which is imported when it is called."""

    def builder(target: "Target", settings: Settings, loaded: Loaded) -> "Drafter":
        found = import_module(f"dflash_bench.engine.methods.{module}")
        drafter: Drafter = found.build(target, settings, loaded)
        return drafter

    return builder


def _build_ar(target: "Target", settings: Settings, loaded: Loaded) -> "Drafter":
    from dflash_bench.engine.methods.ar import AutoregressiveDrafter

    return AutoregressiveDrafter()


_DFLASH = ("verify_length", "denoise_steps", "noise", "noise_schedule")
_METHODS: dict[str, Method] = {
    "ar": Method(
        _build_ar,
        "plain decoding: the same loop with nothing drafted; the baseline",
        settings=frozenset(),
    ),
    "dflash": Method(
        _shipped("dflash_checkpoint"),
        "a block-diffusion drafter fills a block of masks in one pass",
        settings=frozenset({"draft", "block_size", *_DFLASH}),
        needs_draft=True,
        role="dflash",
        has_distribution=True,
    ),
    "eagle3": Method(
        _shipped("eagle3"),
        "one layer on the target's features, token after token",
        settings=frozenset({"draft", "block_size", "tree"}),
        needs_draft=True,
        role="eagle3",
        has_distribution=True,
        has_tree=True,
    ),
    "medusa": Method(
        _shipped("medusa_checkpoint"),
        "heads on the target's last hidden state, one per position",
        settings=frozenset({"draft", "block_size", "tree"}),
        needs_draft=True,
        role="medusa",
        has_distribution=True,
        has_tree=True,
        has_typical=True,
    ),
    "draft_model": Method(
        _shipped("draft_model"),
        "a smaller model of the same tokenizer drafts token after token",
        settings=frozenset({"draft", "block_size"}),
        needs_draft=True,
        role="draft_model",
        has_distribution=True,
    ),
    "ngram": Method(
        _shipped("ngram"),
        "prompt lookup: what followed the same tokens earlier in the text",
        settings=frozenset({"block_size", "ngram_min", "ngram_max"}),
    ),
}
