"""Any backend behind HTTP: its recipe starts it, its dialect asks it, the load client times it.

A server is started for one arm and serves the cells of one round; or it runs already (`base_url`), and then it is asked
as it is. What is special about a backend is in its recipe and its dialect; what words cannot say is a hook here, which
`vllm.py` and `sglang.py` fill:

refuse(arm, cell)        why this backend cannot do it, beyond what its recipe says
check(arm)               raises ConfigError for settings of an arm that would not be honest, or not work
values(arm, opening)     further placeholders of the recipe
config_facts(config)     keys of `Totals.backend` from what the server says of itself
log_facts(log)           the same from its log, once it is ready
defects(arm)             sentences on what this build is known to do wrong with the arm, in silence
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dflash_bench.errors import ConfigError, InfrastructureError, did_you_mean
from dflash_bench.plan import Cell, Nesting, PlannedArm
from dflash_bench.records.secrets import hidden_words
from dflash_bench.runners import environments, launch
from dflash_bench.runners.base import Opening
from dflash_bench.runners.dialects import DIALECTS
from dflash_bench.runners.folders import draft_folder, model_folder, require
from dflash_bench.runners.launch import Launch, Value
from dflash_bench.runners.local_models import LocalModels
from dflash_bench.runners.machine import Gpu, gpus
from dflash_bench.runners.prepare import cache_folder, prepare
from dflash_bench.runners.recipe import Recipe
from dflash_bench.runners.server.endpoints import Endpoints, normal_url, same_server
from dflash_bench.runners.server.found import check_addresses, headers, model_name, other_model
from dflash_bench.runners.server.process import (
    LOOPBACK,
    ServerProcess,
    environment,
    free_port,
    memory_returned,
    temporary_log,
)
from dflash_bench.spec import Spec

if TYPE_CHECKING:
    from dflash_bench.runners.server.session import ServerSession


class ServerRunner(LocalModels):
    """Starts the server of an arm, or finds the one that runs, and opens a session on it."""

    nesting: Nesting = "start"
    couples_noise = False

    def __init__(self, spec: Spec, recipe: Recipe) -> None:
        """Refuse a spec that this recipe cannot serve; nothing is loaded or started."""
        self.name = recipe.name
        self.spec = spec
        self.recipe = recipe
        self._folders: dict[str, Path] = {}
        self._drafts: dict[tuple[str, str], Path] = {}
        assert recipe.ask is not None, "a server's recipe has it"
        if recipe.ask.dialect not in DIALECTS:
            raise ConfigError(
                f"recipe {recipe.reference}: ask.dialect: there is no dialect '{recipe.ask.dialect}'.",
                remedy=did_you_mean(recipe.ask.dialect, DIALECTS),
            )
        check_addresses(spec, recipe)

    # What a backend adds.

    def refuse(self, arm: PlannedArm, cell: Cell) -> str | None:
        """Say why this backend cannot do (arm, cell), or None. Needs nothing loaded."""
        return None

    def check(self, arm: PlannedArm) -> None:
        """Raise ConfigError if `arm` has settings that this backend must not or cannot be given."""

    def values(self, arm: PlannedArm, opening: Opening) -> Mapping[str, Value]:
        """Return placeholders of the recipe beside the usual ones."""
        return {}

    def config_facts(self, config: Any) -> dict[str, Any]:
        """Return keys of `Totals.backend` from the server's answer at `info.config`; secrets are out of it."""
        return {} if config is None else {"config": config}

    def log_facts(self, log: str) -> dict[str, Any]:
        """Return keys of `Totals.backend` from the log of a server that has just become ready."""
        return {}

    def defects(self, arm: PlannedArm) -> list[str]:
        """Return what this build is known to do wrong with `arm`, in silence."""
        return []

    # The protocol of `base.py`.

    def refusal(self, arm: PlannedArm, cell: Cell) -> str | None:
        """Say why (arm, cell) cannot be done, or None."""
        url, baseline = self.base_url(arm), self._baseline_url()
        if url is not None:
            if arm.name != self.spec.baseline and baseline and same_server(url, baseline):
                return "base_url: the same server as the baseline's, so there is nothing to compare"
            if cell.target_quantization is not None:
                return "target_quantization: a server that runs already has the weights that it has"
            return self.refuse(arm, cell)
        reason = launch.refusal(
            self.recipe,
            arm.method,
            dtype=self.spec.dtype,
            quantization=cell.target_quantization,
            matched=arm.settings.get("matched"),
        )
        return reason or self.refuse(arm, cell)

    def start(self) -> None:
        """Find the models and the environment, and load the tokenizer. No server yet."""
        require("aiohttp", "prometheus_client", "transformers")
        from dflash_bench.lab.catalogue import resolve
        from dflash_bench.runners.tokenizer import TargetTokenizer

        spec = self.spec
        starts = [arm for arm in spec.arms.values() if (arm.base_url or spec.base_url) is None]
        if starts and self.recipe.environment is not None:
            environments.required(self.recipe)
            environments.check_device_of(spec, environments.variant_of(self.recipe))
        folder = model_folder(resolve(spec.target, "target"), weights=bool(starts))
        self._folders["target"] = folder
        for arm in starts:
            if arm.draft is not None:
                self._drafts[arm.method, arm.draft] = draft_folder(arm.method, arm.draft)
                self._folders[f"{arm.method} {arm.draft}"] = self._drafts[arm.method, arm.draft]
        self._tokenizer = TargetTokenizer(folder, spec.chat_template_kwargs)

    def facts(self) -> dict[str, Any]:
        """Return the recipe, the version that is installed, and what shapes a time."""
        spec, found = self.spec, None
        if self.recipe.environment is not None and any(
            (arm.base_url or spec.base_url) is None for arm in spec.arms.values()
        ):
            found = environments.required(self.recipe)
        return {
            "name": self.name,
            "recipe": self.recipe.reference,
            "recipe_sha256": self.recipe.digest,
            "version": found.version if found else None,
            "variant": found.variant if found else None,
            "packages": list(found.packages) if found else None,
            "base_urls": {name: arm.base_url or spec.base_url for name, arm in spec.arms.items()},
            "device": spec.device,
            "dtype": spec.dtype,
            "threads": spec.threads,
            "chat_template": self._tokenizer.has_chat_template,
        }

    def open(self, arm: PlannedArm, opening: Opening) -> "ServerSession":
        """Start the arm's server and wait until it is ready, or find the one that runs."""
        self.check(arm)
        url = self.base_url(arm)
        return self._found(arm, url) if url is not None else self._started(arm, opening)

    def stop(self) -> None:
        """Nothing outlives a session."""

    # How a session comes about.

    def base_url(self, arm: PlannedArm) -> str | None:
        """Return the root of the server that runs already for `arm`; None if one is to be started."""
        url = arm.base_url or self.spec.base_url
        return None if url is None else normal_url(url)

    def _baseline_url(self) -> str | None:
        return self.spec.arms[self.spec.baseline].base_url or self.spec.base_url

    def command(self, arm: PlannedArm, opening: Opening, port: int) -> Launch:
        """Return the command that starts the server of `arm` on `port`."""
        return launch.launch(
            self.recipe,
            self.placeholders(arm, opening, port),
            variant=environments.variant_of(self.recipe),
            method=arm.method,
            dtype=self.spec.dtype,
            quantization=opening.quantization,
            matched=arm.settings.get("matched"),
            flags=(*self.spec.server.flags, *arm.settings.get("flags", ())),
            env=self.spec.server.env,
        )

    def placeholders(self, arm: PlannedArm, opening: Opening, port: int | None) -> dict[str, Value]:
        """Return every placeholder of the recipe's `start`, for `arm`."""
        spec = self.spec
        draft = self._drafts.get((arm.method, arm.draft)) if arm.draft is not None else None
        return {
            **environments.values(self.recipe),
            **launch.arm_values(arm),
            "port": port,
            "target": self._folders["target"],
            "draft": draft,
            "cache": cache_folder(self.recipe, self._folders["target"], draft),
            "batch_size": opening.batch_size,
            "positions": opening.positions or None,
            "quantization": opening.quantization,
            "dtype": spec.dtype,
            "device": spec.device,
            "threads": spec.threads,
            "seed": spec.sampling.seed,
            **self.values(arm, opening),
        }

    def _found(self, arm: PlannedArm, url: str) -> "ServerSession":
        """Open a session on a server that runs already; it must answer."""
        from dflash_bench.runners.server.session import ServerSession

        endpoints = Endpoints(url, self.recipe, headers())
        if self.recipe.health is not None:
            endpoints.read(self.recipe.health.path)
        known = endpoints.models()
        model = model_name(self.spec, self.recipe, arm, known)
        about: dict[str, Any] = {"flags": None, "model": model}
        doubts = other_model(model, known, self.spec.target, self._folders["target"])
        if doubts:
            about["complaints"] = doubts
        # Not every server says what it is: vLLM's configuration is told in its development mode alone.
        with suppress(InfrastructureError):
            about |= self._about(endpoints)
        return ServerSession(self, arm, endpoints, model, about)

    def _started(self, arm: PlannedArm, opening: Opening) -> "ServerSession":
        """Start a server and open a session on it; one that does not become ready leaves nothing behind."""
        from dflash_bench.runners.server.session import ServerSession

        recipe = self.recipe
        assert recipe.health is not None, "Recipe saw to that"
        assert recipe.ask is not None, "Recipe saw to that"
        before: list[Gpu] = gpus()
        port = free_port()
        log_path = opening.log or temporary_log(arm.name)
        prepare(recipe, self.placeholders(arm, opening, port), log_path.with_suffix(".prepare.log"))
        words = self.command(arm, opening, port)
        installed = environments.required(recipe) if recipe.environment is not None else None
        process = ServerProcess.start(
            words.argv,
            environment(words.env, installed.folder if installed else None),
            log_path,
        )
        try:
            endpoints = Endpoints(f"http://{LOOPBACK}:{port}", recipe)
            told = "start_timeout_s" in self.spec.server.model_fields_set
            timeout_s = self.spec.server.start_timeout_s if told else recipe.health.timeout_s
            process.wait_healthy(endpoints.base_url + recipe.health.path, timeout_s)
            log = process.log_path.read_text(encoding="utf-8", errors="replace")
            about = {
                "flags": hidden_words(words.argv),
                "log": process.log_path.name,
                "defects": self.defects(arm),
                **self.log_facts(log),
                **self._about(endpoints),
            }
            values = self.placeholders(arm, opening, port)
            model = launch.fill_text(
                recipe.ask.model, values, f"recipe {recipe.reference}: ask.model"
            )
            about["model"] = model
            return ServerSession(self, arm, endpoints, model, about, process, before)
        except BaseException:
            process.stop()
            memory_returned(before)
            raise

    def _about(self, endpoints: Endpoints) -> dict[str, Any]:
        """Return what the server says of itself; what it does not tell is missing."""
        version = endpoints.version()
        facts = self.config_facts(endpoints.config())
        return {**({} if version is None else {"version": version}), **facts}
