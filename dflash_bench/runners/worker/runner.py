"""Backends that are Python libraries: each arm in a process of its own, under the environment of the recipe.

A library stays as its users run it: it is loaded by its own loader, and its own loop generates. One process an arm and
round, so that no arm finds what another left (hooks on the target, a warm allocator, memory held), and `nesting` is
`start`. These loops take one request at a time; more in flight, or requests at a rate, are refused.

What differs between two libraries is in their recipes, their workers (`workers/NAME_worker.py`) and a few hooks here:

library                the package whose version is the backend's
takes                  settings that an arm may have
check(name, arm)       raises ConfigError for settings of an arm that the library has not
interpreter()          the Python that runs the worker, and the folder of its environment
settings(arm)          further words of the worker's `load`
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dflash_bench.errors import ConfigError, InfrastructureError
from dflash_bench.plan import Cell, Nesting, PlannedArm
from dflash_bench.runners import environments, launch
from dflash_bench.runners.base import Opening
from dflash_bench.runners.folders import draft_folder, model_folder, require
from dflash_bench.runners.local_models import LocalModels
from dflash_bench.runners.machine import gpus
from dflash_bench.runners.model_config import (
    check_block,
    check_drafter,
    eos_ids,
)
from dflash_bench.runners.recipe import Recipe
from dflash_bench.runners.server.process import environment, temporary_log
from dflash_bench.runners.worker.report import Origin
from dflash_bench.runners.worker.session import WorkerSession
from dflash_bench.runners.worker.worker import Failed, Worker
from dflash_bench.spec import LOSSY_RULES, Arm, Spec

if TYPE_CHECKING:
    pass

DRAFTED = {"dflash", "draft_model"}


class WorkerRunner(LocalModels):
    """Starts an arm's worker and opens a session on it."""

    nesting: Nesting = "start"
    couples_noise = False
    library: str
    takes = frozenset({"options", "matched"})

    def __init__(self, spec: Spec, recipe: Recipe) -> None:
        """Refuse a spec that this library cannot do; nothing is loaded or started."""
        self.name, self.spec, self.recipe = recipe.name, spec, recipe
        self._folders: dict[str, Path] = {}
        self._hello: dict[str, Any] = {}
        _check_spec(spec, recipe)
        for name, arm in spec.arms.items():
            if arm.method in recipe.methods:
                self._check_arm(name, arm)

    # What a library adds.

    def check(self, name: str, arm: Arm) -> None:
        """Raise ConfigError for settings of `arm` that the library has not."""

    def interpreter(self) -> tuple[Path, Path | None]:
        """Return the Python of the recipe's environment, and that environment's folder."""
        found = environments.required(self.recipe)
        return found.python, found.folder

    def settings(self, arm: PlannedArm) -> dict[str, Any]:
        """Return what the worker's `load` is told beside the usual."""
        return {}

    # The protocol of `base.py`.

    def refusal(self, arm: PlannedArm, cell: Cell) -> str | None:
        """Say why (arm, cell) cannot be done, or None."""
        if cell.batch_size > 1:
            return f"{self.name} generates for one request at a time: batch_size 1"
        if cell.request_rate is not None:
            return f"{self.name} is asked for one request after the other, at no request_rate"
        if arm.verify in LOSSY_RULES and cell.temperature > 0:
            return f"{self.name} has no rule '{arm.verify}'"
        return launch.refusal(
            self.recipe,
            arm.method,
            dtype=self.spec.dtype,
            quantization=cell.target_quantization,
            matched=arm.settings.get("matched"),
        )

    def start(self) -> None:
        """Find the models, load the tokenizer, and ask a worker which versions there are. No model is loaded."""
        from dflash_bench.lab.catalogue import resolve
        from dflash_bench.runners.device import check_threads
        from dflash_bench.runners.tokenizer import TargetTokenizer

        spec = self.spec
        require("transformers")  # the tokenizer is ours, not the worker's
        check_threads(spec.threads)
        if self.interpreter()[1] is not None:
            environments.check_device_of(spec, environments.variant_of(self.recipe))
        self._folders["target"] = model_folder(resolve(spec.target, "target"), weights=True)
        for name, arm in spec.arms.items():
            if arm.draft is not None and arm.method in self.recipe.methods:
                folder = draft_folder(arm.method, arm.draft)
                self._folders[f"{arm.method} {arm.draft}"] = folder
                if arm.method == "dflash":
                    check_drafter(name, folder)
                    for block in (arm.block_size,) if arm.block_size else spec.sweep.block_size:
                        check_block(name, block, folder)
        self._tokenizer = TargetTokenizer(self._folders["target"], spec.chat_template_kwargs)
        baseline = PlannedArm(name=spec.baseline, method="ar")
        worker = self._worker(baseline, Opening(log=temporary_log("start")))
        self._hello = worker.hello
        worker.close()
        worker.log.unlink(missing_ok=True)

    @property
    def versions(self) -> dict[str, str | None]:
        """What is installed where the workers run, once started."""
        versions: dict[str, str | None] = self._hello["versions"]
        return versions

    def facts(self) -> dict[str, Any]:
        """Return the recipe, the versions that are installed, and what shapes a time."""
        python, folder = self.interpreter()
        return {
            "name": self.name,
            "recipe": self.recipe.reference,
            "recipe_sha256": self.recipe.digest,
            "versions": self.versions,
            "python": self._hello["python"],
            "environment": None if folder is None else str(folder),
            "interpreter": str(python),
            "device": self.spec.device,
            "dtype": self.spec.dtype,
            "threads": self.spec.threads,
            "chat_template": self._tokenizer.has_chat_template,
        }

    def open(self, arm: PlannedArm, opening: Opening) -> WorkerSession:
        """Start the arm's worker and have it load the models."""
        before = gpus()
        log = opening.log or temporary_log(arm.name)
        worker = self._worker(arm, Opening(quantization=opening.quantization, log=log))
        try:
            loaded = worker.ask("load", self._load(arm, opening))
        except Failed as error:
            worker.close()
            raise InfrastructureError(
                f"arms.{arm.name}: {self.name} could not load it: {error.message}",
                remedy=error.remedy,
            ) from error
        except ConfigError as error:
            worker.close()
            raise ConfigError(f"arms.{arm.name}: {error.message}", remedy=error.remedy) from error
        except BaseException:
            worker.close()
            raise
        facts = loaded["facts"]
        origin = Origin(
            source=f"{self.name} steps",
            first_pass=facts["first_pass"],
            drafts=arm.method != "ar",
            block_size=facts["block_size"],
            stop_ids=eos_ids(self._folders["target"]),
        )
        about = self._about(arm, worker, facts)
        return WorkerSession(worker, origin, about, self._tokenizer, self.spec.sampling, before)

    def stop(self) -> None:
        """Nothing outlives a session."""

    def _worker(self, arm: PlannedArm, opening: Opening) -> Worker:
        """Start the recipe's command; it has loaded nothing yet."""
        python, folder = self.interpreter()
        words = launch.launch(
            self.recipe,
            {"python": python, "env": folder, "threads": self.spec.threads},
            variant=environments.variant_of(self.recipe) if folder is not None else None,
            method=arm.method,
            dtype=self.spec.dtype,
            quantization=opening.quantization,
            matched=arm.settings.get("matched"),
            env=self.spec.server.env,
        )
        assert opening.log is not None, "callers name it"
        env = environment(words.env, folder)
        return Worker(words.argv, env, opening.log, self.spec.server.silence_s)

    def _load(self, arm: PlannedArm, opening: Opening) -> dict[str, Any]:
        """Return the worker's `load`."""
        draft = self._folders.get(f"{arm.method} {arm.draft}")
        return {
            "method": arm.method,
            "matched": arm.settings.get("matched"),
            "options": arm.settings.get("options", {}),
            "target": str(self._folders["target"]),
            "draft": None if draft is None else str(draft),
            "block_size": arm.block_size,
            "ngram_max": arm.settings.get("ngram_max"),
            "dtype": self.spec.dtype,
            "device": self.spec.device,
            "threads": self.spec.threads,
            "quantization": opening.quantization,
            "stop_ids": sorted(eos_ids(self._folders["target"])),
            **self.settings(arm),
        }

    def _about(self, arm: PlannedArm, worker: Worker, facts: dict[str, Any]) -> dict[str, Any]:
        """Return keys of `Totals.backend` (`base.py`, STATE)."""
        about: dict[str, Any] = {
            "version": self.versions[self.library],
            "flags": list(worker.argv),
            "config": {**facts["config"], "versions": worker.hello["versions"]},
            "max_requests": 1,
            "prefix_cache": False,
            "cached_prompt_tokens": 0,
            "log": worker.log.name,
        }
        if arm.method != "ar":
            about["spec_method"] = arm.method
            about["num_speculative_tokens"] = facts["block_size"] - 1
        return about

    def _check_arm(self, name: str, arm: Arm) -> None:
        told = {key for key in arm.settings if key not in self.takes}
        if arm.base_url or self.spec.base_url:
            told.add("base_url")
        if told:
            raise ConfigError(
                f"arms.{name}.{min(told)}: runner {self.name} has no such setting.",
                remedy=f"Remove it; an arm here may have: {', '.join(sorted(self.takes))}.",
            )
        if arm.method in DRAFTED and arm.draft is None:
            raise ConfigError(
                f"arms.{name}.draft: is missing; {arm.method} drafts with a model.",
                remedy="Name one of ours (draft: lab), a folder or a hub id.",
            )
        self.check(name, arm)


def _check_spec(spec: Spec, recipe: Recipe) -> None:
    """Refuse penalties, which the libraries' loops have not, or not all of them; and what only a server has."""
    sampling = spec.sampling
    for name, none in (
        ("repetition_penalty", 1.0),
        ("presence_penalty", 0.0),
        ("frequency_penalty", 0.0),
    ):
        if getattr(sampling, name) != none:
            raise ConfigError(
                f"sampling.{name}: runner {recipe.name} has no penalties.",
                remedy="Remove it, or use runner reference.",
            )
    told = spec.server.model_fields_set & {"flags", "start_timeout_s"}
    if told:
        raise ConfigError(
            f"server.{min(told)}: runner {recipe.name} starts no server.",
            remedy="Remove it; server.env is heeded, and an arm's own settings are its `options`.",
        )
