"""A library in a worker beside the reference engine: one set of prompts, all arms, texts and steps."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.plan import PlannedArm, make_plan
from dflash_bench.records.schema import Answer, Totals
from dflash_bench.runners import environments, reference
from dflash_bench.runners.acceptance import canonical
from dflash_bench.runners.base import Load, Opening, Request, Runner
from dflash_bench.runners.worker.runner import WorkerRunner
from dflash_bench.spec import Spec
from dflash_bench.workloads.load import load_items
from dflash_bench.workloads.workload import load_workload

NUM_PROMPTS = 8


@dataclass(frozen=True)
class Said:
    """What one arm answered to all prompts, in their order."""

    answers: Sequence[Answer]
    totals: Totals

    @property
    def texts(self) -> list[tuple[int, ...] | None]:
        return [answer.output_ids for answer in self.answers]

    @property
    def tau(self) -> float:
        """Committed tokens per step, pooled, the prefill's left out."""
        steps = [answer.steps for answer in self.answers if answer.steps is not None]
        assert len(steps) == len(self.answers)
        return sum(sum(s.committed) for s in steps) / sum(len(s.committed) for s in steps)

    @property
    def num_tokens(self) -> int:
        return sum(len(answer.output_ids or ()) for answer in self.answers)

    def identical(self, other: "Said") -> int:
        return sum(a == b for a, b in zip(self.texts, other.texts, strict=True))


def requests_for(runner: Runner, max_new_tokens: int = 64) -> list[Request]:
    """Return the first prompts of sample-math, as `runner` renders them."""
    items = load_items(load_workload("sample-math"), NUM_PROMPTS)
    texts = [runner.tokenizer.render(item.messages or ()) for item in items]
    return [
        Request(f"r{key}", tuple(runner.tokenizer.encode(text)), key, max_new_tokens, text=text)
        for key, text in enumerate(texts)
    ]


def ask(
    runner: Runner,
    arm: PlannedArm,
    requests: Sequence[Request],
    temperature: float = 0.0,
    quantization: str | None = None,
) -> Said:
    """Open `arm`, ask it everything, close it."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "worker.log")
        session = runner.open(arm, Opening(quantization=quantization, log=log))
        try:
            answers = list(session.run(requests, Load(1, temperature)))
            for answer in answers:
                assert answer.error is None, answer.error
            return Said(answers, session.totals())
        finally:
            session.close()


@dataclass(frozen=True)
class Bench:
    """A library and the engine on one target, and what the library's plain decoding says there."""

    runner: WorkerRunner
    engine: Runner
    arms: dict[str, PlannedArm]
    target: str
    requests: list[Request]
    plain: Said

    def arm(self, name: str) -> PlannedArm:
        if name not in self.arms:
            pytest.skip(f"not with target {self.target}")
        return self.arms[name]

    @property
    def version(self) -> str | None:
        return self.runner.versions[self.runner.library]

    def assert_matched_says_the_same(self) -> int:
        """Ask plain decoding matched to dflash: plain decoding's texts, a pass a token; return how many were asked."""
        matched = ask(self.runner, self.arm("ar-matched"), self.requests)
        count = len(matched.answers)
        assert matched.texts == self.plain.texts
        assert matched.totals.acceptance is None
        assert matched.totals.row_steps == matched.num_tokens - count
        return count

    def assert_same_as_the_engine(
        self, name: str, in_engine: str, steps: bool
    ) -> tuple[Said, Said]:
        """Ask `name` of the library and `in_engine` of the engine: the same texts, and steps where these must be."""
        theirs = ask(self.runner, self.arm(name), self.requests)
        ours = ask(self.engine, self.arm(in_engine), self.requests)
        assert theirs.texts == self.plain.texts == ours.texts
        if steps:
            assert theirs.tau == pytest.approx(ours.tau, abs=1e-9)
        told, count = theirs.totals.acceptance, len(theirs.answers)
        assert told is not None
        assert canonical.check(told, theirs.num_tokens, count) == []
        assert canonical.tau(told, theirs.num_tokens, count) == pytest.approx(theirs.tau)
        return theirs, ours


def benched(make: Callable[[Spec], WorkerRunner], spec: Spec) -> Iterator[Bench]:
    """Start both, in an environment of the recipe's own; skip where there is none. The fixture of a test file."""
    runner = make(spec)
    try:
        environments.required(runner.recipe)
    except ConfigError as error:
        pytest.skip(f"{error.message} {error.remedy}")
    runner.start()
    requests, arms = requests_for(runner), make_plan(spec).arms
    plain = ask(runner, arms["ar"], requests)
    engine = _engine_for(spec)
    yield Bench(runner, engine, arms, spec.target, requests, plain)
    runner.stop()
    engine.stop()


def _engine_for(spec: Spec) -> Runner:
    """Return the reference engine, started, on the arms that it knows without a backend's own words."""
    arms = {name: arm for name, arm in spec.arms.items() if not (arm.options or arm.matched)}
    engine = reference.make(spec.model_copy(update={"runner": "reference", "arms": arms}))
    engine.start()
    return engine
