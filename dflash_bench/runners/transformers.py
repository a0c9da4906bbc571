"""Hugging Face transformers: `generate`, its drafting methods, and the authors' `dflash_generate`.

`options: {implementation: native}` (the default) is transformers' own DFlash, `upstream` the authors' package; a plain
arm with `matched: dflash` is the authors' loop at block size 1. Where no environment was made for it, it runs under
this Python if that has torch and transformers; the authors' loop is refused there unless their package is installed.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

from dflash_bench.errors import ConfigError, did_you_mean
from dflash_bench.runners import environments
from dflash_bench.runners.recipe import Recipe, load_recipe
from dflash_bench.runners.worker.runner import WorkerRunner
from dflash_bench.spec import Arm, Spec

IMPLEMENTATIONS = ("native", "upstream")
# Words of `generate` that change how a model runs, and of assisted generation that change how it drafts. The lookup and
# DFlash have none beside what an arm says itself.
OPTIONS = {
    "ar": {"cache_implementation", "cache_config", "prefill_chunk_size", "disable_compile"},
    "draft_model": {"num_assistant_tokens_schedule", "assistant_confidence_threshold"},
    "dflash": {"implementation"},
}
# Words of `generate` that stand elsewhere in a spec.
ELSEWHERE = {
    **dict.fromkeys(("num_assistant_tokens", "prompt_lookup_num_tokens"), "the arm's block_size"),
    "max_matching_ngram_size": "the arm's ngram_max",
    **dict.fromkeys(("assistant_model", "speculation_type"), "the arm's method and draft"),
    **dict.fromkeys(
        ("do_sample", "temperature", "top_p", "top_k", "max_new_tokens", "seed"), "`sampling`"
    ),
    **dict.fromkeys(("repetition_penalty", "min_p", "typical_p"), "`sampling`, if anything"),
    **dict.fromkeys(("eos_token_id", "stop_strings"), "the target's and the workload's"),
}
DEVICES = ("cpu", "cuda")


def make(spec: Spec, recipe: Recipe | None = None) -> "TransformersRunner":
    """Return the runner; `recipe` is a user's own, else ours."""
    return TransformersRunner(spec, recipe or load_recipe("transformers"))


class TransformersRunner(WorkerRunner):
    """transformers in a worker."""

    library = "transformers"
    takes = frozenset({"options", "matched", "ngram_max"})

    def __init__(self, spec: Spec, recipe: Recipe) -> None:
        """Refuse a device that nothing here was run on."""
        if spec.device.partition(":")[0] not in DEVICES:
            raise ConfigError(
                f"device: '{spec.device}' is not a device of this runner.",
                remedy=f"Use one of: {', '.join(DEVICES)}.",
            )
        super().__init__(spec, recipe)

    def check(self, name: str, arm: Arm) -> None:
        """Refuse an implementation that does not exist, and what the loop of `arm` does not take."""
        wanted = (arm.options or {}).get("implementation", "native")
        if wanted not in IMPLEMENTATIONS:
            raise ConfigError(
                f"arms.{name}.options.implementation: there is no '{wanted}'.",
                remedy=did_you_mean(str(wanted), IMPLEMENTATIONS),
            )
        if wanted == "upstream" and arm.method != "dflash":
            raise ConfigError(
                f"arms.{name}.options.implementation: the authors' package does {arm.method} only as"
                " `matched: dflash` of method ar.",
                remedy="Remove it.",
            )
        known = set() if arm.matched else OPTIONS.get(arm.method, set())
        for key in sorted(set(arm.options or {}) - known):
            raise _not_an_option(f"arms.{name}.options.{key}", key, known)
        if arm.ngram_max is not None and arm.method != "ngram":
            raise ConfigError(
                f"arms.{name}.ngram_max: is of method ngram, not of {arm.method}.",
                remedy="Remove it.",
            )

    def interpreter(self) -> tuple[Path, Path | None]:
        """Return the environment's Python, or this one where there is no environment and it has what is needed."""
        there = environments.find(self.recipe.name)
        if there is None and find_spec("torch") and find_spec("transformers"):
            return Path(sys.executable), None
        return super().interpreter()

    def start(self) -> None:
        """Refuse the authors' loop where their package is not installed."""
        super().start()
        for name, arm in self.spec.arms.items():
            upstream = (arm.options or {}).get("implementation") == "upstream" or arm.matched
            if upstream and self.versions["dflash"] is None:
                raise ConfigError(
                    f"arms.{name}: needs the authors' package dflash, which is not installed beside this Python.",
                    remedy=f"Run `dflash-bench env create {self.recipe.reference}`.",
                )


def _not_an_option(where: str, key: str, known: set[str]) -> ConfigError:
    """Return the refusal of a word that is not the loop's, or that the spec has another place for."""
    if key in ELSEWHERE:
        return ConfigError(f"{where}: is what {ELSEWHERE[key]} says.", remedy="Remove it.")
    remedy = did_you_mean(key, known) if known else "Remove it: this loop has no options."
    return ConfigError(f"{where}: is not an option of this loop.", remedy=remedy)
