"""Our own engine in this process: every method in one loop, so that arms differ in the drafting alone."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dflash_bench.errors import ConfigError, did_you_mean
from dflash_bench.plan import Cell, Nesting, PlannedArm
from dflash_bench.records.schema import Answer, Phases, Share, Steps, Totals
from dflash_bench.runners.base import Load, Opening, Request, Session
from dflash_bench.runners.device import (
    check_device,
    check_threads,
    device_name,
    memory_errors,
    require_torch,
)
from dflash_bench.runners.local_models import LocalModels
from dflash_bench.runners.stop import stop_finder
from dflash_bench.spec import Rule, SamplingSpec, Spec

if TYPE_CHECKING:
    from dflash_bench.engine.methods.base import Drafter
    from dflash_bench.engine.sampling import Sampling
    from dflash_bench.engine.target import Target
    from dflash_bench.engine.trace import RequestTrace, VisitTrace
    from dflash_bench.runners.recipe import Recipe
    from dflash_bench.runners.tokenizer import TargetTokenizer


def make(spec: Spec, recipe: "Recipe | None" = None) -> "ReferenceRunner":
    """Return the runner; an arm that its method cannot be is refused."""
    from dflash_bench.engine.registry import check, methods

    for key in ("base_url", "server"):
        if key in spec.model_fields_set and getattr(spec, key) is not None:
            raise ConfigError(
                f"{key}: is for servers; the reference engine runs in this process.",
                remedy="Remove it, or choose another runner.",
            )
    for name, arm in spec.arms.items():
        if arm.method not in methods():
            raise ConfigError(
                f"arms.{name}.method: the runner reference has no method '{arm.method}'.",
                remedy=did_you_mean(arm.method, methods()),
            )
        for key in ("matched", "options", "flags", "base_url"):
            if getattr(arm, key) is not None:
                raise ConfigError(
                    f"arms.{name}.{key}: is for backends; the reference engine starts no server.",
                    remedy="Remove the key, or choose another runner.",
                )
        rule = None if arm.method == "ar" else arm.verify or spec.sampling.verify
        settings = arm.settings | {"draft": arm.draft, "block_size": arm.block_size}
        with _named(name, "."):
            check(arm.method, settings, rule)
    return ReferenceRunner(spec)


@contextmanager
def _named(arm: str, mark: str = ": ") -> Iterator[None]:
    """Let what is refused inside name its arm."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"arms.{arm}{mark}{error.message}", remedy=error.remedy) from error


class ReferenceRunner(LocalModels):
    """One target in memory, shared by all arms."""

    name = "reference"
    nesting: Nesting = "cell"
    couples_noise = True

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._folders: dict[str, Path] = {}
        self._loaded: dict[object, Any] = {}

    def refusal(self, arm: PlannedArm, cell: Cell) -> str | None:
        """Every method runs at every batch size, on weights as they are, and there is no queue in front of it."""
        if cell.target_quantization is not None:
            return f"the reference engine does not quantize (target_quantization {cell.target_quantization})"
        if cell.request_rate is not None:
            return "the reference engine takes no arrivals (request_rate)"
        return None

    def start(self) -> None:
        """Set the threads, load the target and its tokenizer.

        The thread count is the config's: on a shared machine more threads than free cores make every
        barrier wait, and AR, which has the most barriers per token, looks slower than it is.
        """
        require_torch()
        import torch

        from dflash_bench.engine.hub import local_folder
        from dflash_bench.engine.target import Target
        from dflash_bench.lab.catalogue import resolve
        from dflash_bench.runners.tokenizer import TargetTokenizer

        spec = self._spec
        check_device(spec.device)
        check_threads(spec.threads)
        torch.set_num_threads(spec.threads)
        folder = local_folder(resolve(spec.target, "target"))
        self._folders["target"] = folder
        with memory_errors(f"target {spec.target}"):
            self._target: Target = Target.load(folder, getattr(torch, spec.dtype), spec.device)
        self._tokenizer = TargetTokenizer(folder, spec.chat_template_kwargs)

    @property
    def max_positions(self) -> int:
        """The longest sequence that the target takes, in tokens."""
        return self._target.max_positions

    def facts(self) -> dict[str, Any]:
        """Return what shapes a time: device, dtype, threads, attention, and how text is rendered."""
        import torch

        return {
            "name": self.name,
            "device": str(self._target.device),
            "device_name": device_name(self._spec.device),
            "dtype": self._spec.dtype,
            "threads": torch.get_num_threads(),
            "attention": "sdpa",
            "graph_mode": None,
            "chat_template": self._tokenizer.has_chat_template,
        }

    def open(self, arm: PlannedArm, opening: Opening | None = None) -> Session:
        """Build the arm's drafter; arms of one checkpoint share its weights."""
        from dflash_bench.engine.hub import local_folder
        from dflash_bench.engine.registry import build, find
        from dflash_bench.lab.catalogue import resolve

        settings: dict[str, object] = {**arm.settings, "block_size": arm.block_size}
        role = find(arm.method).role
        if arm.draft is not None:
            # A method from elsewhere has no shipped models: its draft is a folder or a hub id.
            with _named(arm.name, ".draft: "):
                place = resolve(arm.draft, role) if role else arm.draft
            folder = local_folder(place)
            self._folders[f"{arm.method} {arm.draft}"] = folder
            settings["draft"] = folder
        with _named(arm.name):
            drafter = build(arm.method, self._target, settings, self._loaded)
        return ReferenceSession(self._target, drafter, self._tokenizer, self._spec.sampling, arm)

    def stop(self) -> None:
        """Let go of the models."""
        self._loaded.clear()


class ReferenceSession:
    """A target with one drafter."""

    def __init__(
        self,
        target: "Target",
        drafter: "Drafter",
        tokenizer: "TargetTokenizer",
        sampling: SamplingSpec,
        arm: PlannedArm,
    ) -> None:
        self._target = target
        self._drafter = drafter
        self._tokenizer = tokenizer
        self._sampling = sampling
        self._rule: Rule = arm.verify or "match"
        self._totals: Totals | None = None

    def run(self, requests: Sequence[Request], load: Load) -> Iterator[Answer]:
        """Generate for all requests; yield each answer as its request ends."""
        from dflash_bench.engine import request as engine
        from dflash_bench.engine.clock import Clock, TimedDrafter, TimedTarget, measured
        from dflash_bench.engine.loop import generate
        from dflash_bench.engine.trace import Ledger

        asked = [
            engine.Request(
                id=request.id,
                prompt=request.prompt,
                max_new_tokens=request.max_new_tokens,
                stop_ids=self._target.eos_ids,
                key=request.key,
                find_stop=stop_finder(self._tokenizer, request.stop),
            )
            for request in requests
        ]
        clock = Clock(self._target.device)
        events = generate(
            TimedTarget(self._target, clock),
            TimedDrafter(self._drafter, clock),
            asked,
            batch_size=load.batch_size,
            sampling=_sampling(self._sampling, load.temperature),
            rule=self._rule,
        )
        ledger = Ledger(asked, load.batch_size)
        _forget_peak_memory(self._target)
        with memory_errors(f"{self._drafter.name} at batch_size {load.batch_size}"):
            for timed in measured(events, clock):
                for ended in ledger.take(timed):
                    yield _answer(ended, self._tokenizer)
        self._totals = _totals(ledger.total(), self._target, self._drafter.block_size)

    def totals(self) -> Totals:
        """Return the totals of the last finished `run`."""
        if self._totals is None:
            raise RuntimeError("totals() before a run was finished")
        return self._totals

    def close(self) -> None:
        """Nothing is held that the runner does not hold."""


def _sampling(asked: SamplingSpec, temperature: float) -> "Sampling":
    from dflash_bench.engine.sampling import Sampling

    told = asked.model_dump(exclude={"max_new_tokens", "verify"})
    return Sampling(temperature, **told)


def _answer(trace: "RequestTrace", tokenizer: "TargetTokenizer") -> Answer:
    share = trace.window
    return Answer(
        request=trace.id,
        output_ids=tuple(trace.output),
        output_text=tokenizer.decode(trace.output),
        finish_reason=trace.finish_reason,
        ttft_s=trace.ttft_s,
        e2e_s=trace.e2e_s,
        draft_prefill_s=trace.draft_prefill_s,
        steps=Steps(
            drafted=tuple(trace.drafted),
            accepted=tuple(trace.accepted),
            committed=tuple(trace.committed),
            cut=tuple(trace.cut),
            depth=tuple(trace.depth),
            scheduled=tuple(trace.scheduled),
            busy=tuple(trace.busy),
        ),
        window=Share(**asdict(share)),
    )


def _totals(visit: "VisitTrace", target: "Target", block_size: int) -> Totals:
    phases = asdict(visit.window_phases)
    return Totals(
        wall_s=visit.wall_s,
        cpu_s=visit.cpu_s,
        window_wall_s=visit.window_wall_s,
        window_cpu_s=visit.window_cpu_s,
        window_phases=Phases(**phases),
        block_size=block_size if block_size > 1 else None,
        occupancy=visit.occupancy,
        steps=visit.steps,
        row_steps=visit.row_steps,
        peak_memory_bytes=_peak_memory(target),
        kv_bytes_per_token=target.kv_bytes_per_token(),
    )


def _forget_peak_memory(target: "Target") -> None:
    if target.device.type == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats(target.device)


def _peak_memory(target: "Target") -> int | None:
    """Return the peak of the visit on a GPU. A CPU process has one peak for all arms: not measured."""
    if target.device.type != "cuda":
        return None
    import torch

    return int(torch.cuda.max_memory_allocated(target.device))
