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


def make(spec: Spec, recipe: Recipe | None = None) -> "TransformersRunner":
    """Return the runner; `recipe` is a user's own, else ours."""
    return TransformersRunner(spec, recipe or load_recipe("transformers"))


class TransformersRunner(WorkerRunner):
    """transformers in a worker."""

    library = "transformers"
    takes = frozenset({"options", "matched", "ngram_max"})

    def check(self, name: str, arm: Arm) -> None:
        """Refuse an implementation that does not exist, and lengths that the lookup has not."""
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
