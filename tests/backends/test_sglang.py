"""SGLang beside the reference engine: the same texts, and the same steps, request by request.

On a CPU its base server runs once what cannot be installed is stood in for, and with a few lines of five modules
edited so does DFLASH (`sglang_stubs/`). Drafting, verification, scheduling and counting are SGLang's own.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from dflash_bench.errors import InfrastructureError
from dflash_bench.plan import Cell, PlannedArm, make_plan
from dflash_bench.records.schema import Answer, Totals
from dflash_bench.runners import reference
from dflash_bench.runners.base import Load, Opening, Request, Runner
from dflash_bench.runners.recipe import Recipe
from dflash_bench.runners.sglang import SglangRunner, make
from dflash_bench.spec import Spec
from dflash_bench.workloads.load import load_items
from dflash_bench.workloads.workload import load_workload

pytestmark = pytest.mark.backend

STUBS = Path(__file__).parent / "sglang_stubs"
STOOD_IN = "live, CPU kernels stood in for"
EDITED = "recorded: five modules edited, CPU kernels stood in for"
# (target and draft, block size, prompts at a time, new tokens)
PAIRS = [("lab", 16, 1, 96), ("lab", 8, 4, 96), ("markov", 8, 1, 40)]


class OnACpu(SglangRunner):
    """Starts what SGLang's own server would refuse; the stand-ins take the refusal out of it too."""

    def refuse(self, arm: PlannedArm, cell: Cell) -> str | None:
        return None


def spec_of(target: str, block_size: int, runner: str, **server: Any) -> Spec:
    drafted: dict[str, Any] = {"method": "dflash", "draft": target, "block_size": block_size}
    if runner == "sglang":
        drafted["options"] = {"speculative_draft_attention_backend": "torch_native"}
    content = {
        "name": "x",
        "runner": runner,
        "target": target,
        "arms": {"ar": {"method": "ar"}, "dflash": drafted},
        "workloads": ["sample-math"],
        "sweep": {"batch_size": [1, 4]},
    }
    return Spec.model_validate({**content, "server": server} if server else content)


def stood_in(recipe: Recipe, target: str, block_size: int, **env: str) -> SglangRunner:
    """Return the runner, its servers with the stand-ins on their path."""
    env = {"PYTHONPATH": str(STUBS), **env}
    return OnACpu(spec_of(target, block_size, "sglang", env=env), recipe)


def requests_of(runner: Runner, target: str, most: int) -> list[Request]:
    tokenizer = runner.tokenizer
    texts = ["abc", "a", "bcd"]
    if target == "lab":
        items = load_items(load_workload("sample-math"), 8)
        texts = [tokenizer.render(item.messages or ()) for item in items]
    return [
        Request(f"r{n}", tuple(tokenizer.encode(text)), n, most) for n, text in enumerate(texts)
    ]


def asked(
    runner: Runner, arm: PlannedArm, requests: Sequence[Request], load: Load, folder: Path
) -> tuple[dict[str, Answer], Totals]:
    """Open `arm`, ask it all of `requests`, close it."""
    log = folder / f"{runner.name}-{arm.name}.log"
    session = runner.open(arm, Opening(load.batch_size, 256, log=log))
    try:
        answers = {answer.request: answer for answer in session.run(requests, load)}
        return answers, session.totals()
    finally:
        session.close()


def num_steps(answer: Answer) -> int:
    """Return the verification passes of an answer: SGLang counts them, the reference engine lists them."""
    if answer.acceptance is not None and answer.acceptance.steps is not None:
        return answer.acceptance.steps
    assert answer.steps is not None
    return len(answer.steps.committed)


def tau_of(answers: dict[str, Answer]) -> float:
    committed = sum(len(answer.output_ids or ()) - 1 for answer in answers.values())
    return committed / sum(num_steps(answer) for answer in answers.values())


@pytest.fixture
def recipe(backend: Callable[[str], Recipe]) -> Iterator[Recipe]:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield backend("sglang")
    left = {child.pid for child in psutil.Process().children(recursive=True)} - before
    assert not left, "a server's processes outlived their session"


@pytest.mark.parametrize(("pair", "block_size", "batch_size", "most"), PAIRS)
def test_texts_and_steps_are_the_reference_engines(
    recipe: Recipe,
    tmp_path: Path,
    record_row: Callable[..., None],
    pair: str,
    block_size: int,
    batch_size: int,
    most: int,
) -> None:
    served = stood_in(recipe, pair, block_size)
    engine = reference.make(spec_of(pair, block_size, "reference"))
    for runner in (served, engine):
        runner.start()
    requests, load = requests_of(engine, pair, most), Load(batch_size)
    arms = make_plan(served.spec).arms
    same = make_plan(spec_of(pair, block_size, "reference")).arms["dflash"]
    plain, plain_totals = asked(served, arms["ar"], requests, load, tmp_path)
    drafted, totals = asked(served, arms["dflash"], requests, load, tmp_path)
    ours, _ = asked(engine, same, requests, load, tmp_path)
    assert {answer.error for answer in (*plain.values(), *drafted.values())} == {None}
    assert all(plain[name].output_ids == ours[name].output_ids for name in ours)
    identical = sum(drafted[name].output_ids == plain[name].output_ids for name in plain)
    version, told = totals.backend["version"], totals.backend
    label = f"dflash b{block_size} {pair} at {batch_size}"
    row = (tau_of(drafted), tau_of(ours), identical, len(plain))
    record_row("sglang", version, label, *row, EDITED)
    record_row("sglang", version, f"ar {pair}", None, None, len(plain), len(plain), STOOD_IN)
    assert identical == len(plain)
    for name, answer in drafted.items():
        assert num_steps(answer) == num_steps(ours[name])
        expected = ours[name].steps
        # On a busy machine events merge, and then single steps are not told.
        if answer.steps is not None and expected is not None:
            assert answer.steps.committed == expected.committed
    assert totals.acceptance is not None
    assert totals.acceptance.steps == sum(num_steps(answer) for answer in drafted.values())
    assert told["num_speculative_tokens"] == block_size - 1
    assert told["max_requests"] == plain_totals.backend["max_requests"]
    for visit in (totals, plain_totals):
        assert "complaints" not in visit.backend
        assert "invalid" not in visit.backend
        assert visit.backend["prefix_cache"] is False
        assert visit.backend["async_scheduling"] is True


def test_what_we_refuse_sglang_refuses_in_the_same_words(recipe: Recipe, tmp_path: Path) -> None:
    runner = stood_in(recipe, "lab", 16, SGLANG_STUBS_UNEDITED="1")
    runner.start()
    arm = make_plan(runner.spec).arms["dflash"]
    with pytest.raises(InfrastructureError) as refused:
        runner.open(arm, Opening(1, 256, log=tmp_path / "refused.log"))
    cell = Cell(workload="w", batch_size=1, context_length=None, temperature=0.0)
    ours = make(spec_of("lab", 16, "sglang"), recipe).refusal(arm, cell)
    for words in (str(refused.value), str(ours)):
        assert "DFLASH speculative decoding is not supported by" in words
