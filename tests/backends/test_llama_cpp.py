"""llama.cpp's server beside the reference engine: the same texts, and the same steps, request by request."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.plan import PlannedArm
from dflash_bench.records.schema import Answer, Totals
from dflash_bench.runners import openai, reference
from dflash_bench.runners.base import Load, Opening, Request, Runner
from dflash_bench.runners.recipe import Recipe
from dflash_bench.spec import Spec
from dflash_bench.workloads.load import load_items
from dflash_bench.workloads.workload import load_workload

pytestmark = pytest.mark.backend

NUM_PROMPTS = 8
AR = PlannedArm(name="ar", method="ar")
# Method, block size, requests at once. EAGLE-3 alone: of several it drafts worse there (runners/llama.cpp.yaml).
DRAFTS = [
    ("dflash", 8, 2),
    ("dflash", 16, 2),
    ("draft_model", 5, 2),
    ("ngram", 5, 2),
    ("eagle3", 4, 1),
]


def spec_of(target: str, **sampling: Any) -> Spec:
    drafted = {"draft": target, "block_size": 4}
    arms: dict[str, Any] = {"ar": {"method": "ar"}, "dflash": {"method": "dflash", **drafted}}
    if target == "lab":
        arms["eagle3"] = {"method": "eagle3", **drafted}
        arms["draft_model"] = {"method": "draft_model", **drafted}
    content = {"name": "x", "target": target, "arms": arms, "workloads": ["sample-math"]}
    return Spec.model_validate({**content, "threads": 1, "sampling": sampling})


def arm_of(method: str, block_size: int, draft: str = "lab") -> PlannedArm:
    ngram = {"ngram_min": 2, "ngram_max": 2}
    return PlannedArm(
        name=method,
        method=method,
        draft=None if method == "ngram" else draft,
        block_size=block_size,
        num_draft_tokens=block_size - 1,
        settings=ngram if method == "ngram" else {},
    )


def lab_requests(runner: Runner) -> list[Request]:
    items = load_items(load_workload("sample-math"), NUM_PROMPTS)
    texts = [runner.tokenizer.render(item.messages or ()) for item in items]
    return [
        Request(f"r{key}", tuple(runner.tokenizer.encode(text)), key, 96, text=text)
        for key, text in enumerate(texts)
    ]


def asked(
    runner: Runner, arm: PlannedArm, requests: Sequence[Request], load: Load, folder: Path
) -> tuple[dict[str, Answer], Totals]:
    """Open `arm`, ask it all of `requests`, close it."""
    opening = Opening(load.batch_size, 512, log=folder / f"{runner.name}-{arm.name}.log")
    session = runner.open(arm, opening)
    try:
        answers = {answer.request: answer for answer in session.run(requests, load)}
        return answers, session.totals()
    finally:
        session.close()


def num_steps(answers: dict[str, Answer]) -> int:
    assert all(answer.steps is not None for answer in answers.values())
    return sum(len(answer.steps.committed) for answer in answers.values() if answer.steps)


def num_committed(answers: dict[str, Answer]) -> int:
    return sum(len(answer.output_ids or ()) - 1 for answer in answers.values())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("llama")


@pytest.fixture
def recipe(backend: Callable[[str], Recipe]) -> Recipe:
    return backend("llama.cpp")


@pytest.fixture
def lab(recipe: Recipe) -> Iterator[tuple[Runner, Runner]]:
    """llama.cpp and the reference engine on the lab models, greedy, in float32."""
    runners: tuple[Runner, Runner] = (
        openai.make(spec_of("lab"), recipe),
        reference.make(spec_of("lab")),
    )
    for runner in runners:
        runner.start()
    yield runners
    for runner in runners:
        runner.stop()


@pytest.mark.parametrize(("method", "block_size", "batch_size"), DRAFTS)
def test_texts_and_steps_are_the_reference_engines(
    lab: tuple[Runner, Runner],
    folder: Path,
    record_row: Callable[..., None],
    method: str,
    block_size: int,
    batch_size: int,
) -> None:
    served, engine = lab
    requests = lab_requests(engine)
    arm = arm_of(method, block_size)
    plain, _ = asked(served, AR, requests, Load(batch_size), folder)
    drafted, totals = asked(served, arm, requests, Load(batch_size), folder)
    ours, _ = asked(engine, arm, requests, Load(batch_size), folder)
    assert [answer.error for answer in (*plain.values(), *drafted.values())] == [None] * 16
    identical = sum(drafted[name].output_ids == plain[name].output_ids for name in plain)
    tau = num_committed(drafted) / num_steps(drafted)
    expected = num_committed(ours) / num_steps(ours)
    version = totals.backend["version"]
    record_row(
        "llama.cpp", version, f"{method} b{block_size}", tau, expected, identical, len(plain)
    )
    assert identical == len(plain)
    assert all(ours[name].output_ids == plain[name].output_ids for name in plain)
    # An n-gram is looked up by rules of each engine's own; the others differ by a last step at most.
    allowed = NUM_PROMPTS if method != "ngram" else num_steps(ours)
    assert abs(num_steps(drafted) - num_steps(ours)) <= allowed
    assert "complaints" not in totals.backend
    assert "invalid" not in totals.backend
    if totals.acceptance is not None and totals.acceptance.drafted is not None:
        told = [answer.acceptance for answer in drafted.values() if answer.acceptance]
        assert totals.acceptance.drafted == sum(record.drafted or 0 for record in told)


def test_the_known_answer_is_counted_step_by_step(
    recipe: Recipe, folder: Path, record_row: Callable[..., None]
) -> None:
    served = openai.make(spec_of("markov"), recipe)
    served.start()
    prompt = tuple(served.tokenizer.encode("abc"))
    request = Request("abc", prompt, 0, 40, text="abc")
    arm = arm_of("dflash", 8, "markov")
    drafted, totals = asked(served, arm, [request], Load(1), folder)
    plain, _ = asked(served, AR, [request], Load(1), folder)
    engine = reference.make(spec_of("markov"))
    engine.start()
    ours, _ = asked(engine, arm, [request], Load(1), folder)
    engine.stop()
    steps = drafted["abc"].steps
    assert steps is not None
    # Accepted 0, 0, 1 and so on; its last step has no draft, for only one token is wanted.
    assert steps.accepted == (*((0, 0, 1) * 10)[:29], 0)
    assert steps.drafted[-1] == 0
    version = totals.backend["version"]
    same = int(drafted["abc"].output_ids == plain["abc"].output_ids)
    tau, expected = (num_committed(answers) / num_steps(answers) for answers in (drafted, ours))
    record_row("llama.cpp", version, "dflash markov", tau, expected, same, 1)
    assert drafted["abc"].output_ids == ours["abc"].output_ids
    assert num_steps(drafted) == num_steps(ours)
    assert drafted["abc"].output_text == "dabc" * 10
    assert same == 1


def test_a_seed_gives_the_same_text_with_and_without_drafts(recipe: Recipe, folder: Path) -> None:
    served = openai.make(spec_of("lab"), recipe)
    served.start()
    requests = lab_requests(served)
    plain, _ = asked(served, AR, requests, Load(1, temperature=1.0), folder)
    drafted, _ = asked(served, arm_of("dflash", 8), requests, Load(1, temperature=1.0), folder)
    assert all(drafted[name].output_ids == plain[name].output_ids for name in plain)
    assert len({answer.output_text for answer in plain.values()}) > 1


@pytest.mark.parametrize("quantization", ["int8", "int4"])
def test_a_quantized_target_drafts_and_answers(
    recipe: Recipe, folder: Path, quantization: str, record_row: Callable[..., None]
) -> None:
    served = openai.make(spec_of("lab"), recipe)
    served.start()
    requests = lab_requests(served)
    opening = Opening(1, 512, quantization, folder / f"{quantization}.log")
    session = served.open(arm_of("dflash", 8), opening)
    try:
        answers = {answer.request: answer for answer in session.run(requests, Load(1))}
    finally:
        session.close()
    version = session.totals().backend["version"]
    tau = num_committed(answers) / num_steps(answers)
    record_row("llama.cpp", version, f"dflash b8 {quantization}", tau, None, None, None)
    assert tau > 1.5
    assert (
        session.totals()
        .backend["config"]["model_ftype"]
        .startswith({"int8": "Q8_0", "int4": "Q4_0"}[quantization])
    )
