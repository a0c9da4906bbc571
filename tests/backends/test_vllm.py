"""vLLM's server beside the reference engine: the same texts, and the same steps where both draft alike."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from safetensors.torch import load_file, save_file

from dflash_bench.errors import InfrastructureError
from dflash_bench.lab.catalogue import MODELS
from dflash_bench.plan import Cell, PlannedArm
from dflash_bench.records.schema import Acceptance, Answer, Totals
from dflash_bench.runners import reference, vllm
from dflash_bench.runners.base import Load, Opening, Request, Runner
from dflash_bench.runners.recipe import Recipe
from dflash_bench.spec import Spec
from dflash_bench.workloads.load import load_items
from dflash_bench.workloads.workload import load_workload

pytestmark = pytest.mark.backend

ROOT = Path(__file__).resolve().parents[2]
NUM_PROMPTS = 12
AR = PlannedArm(name="ar", method="ar")


def as_it_is(folder: Path) -> None:
    """Leave the drafter as it is shipped."""


def with_one_k_norm(folder: Path) -> None:
    """Give all layers the first one's k_norm: vLLM 0.32.0 on the CPU norms the context's keys of all layers by it."""
    weights = load_file(folder / "model.safetensors")
    first = weights["layers.0.self_attn.k_norm.weight"]
    save_file(
        {key: first.clone() if key.endswith("k_norm.weight") else w for key, w in weights.items()},
        folder / "model.safetensors",
    )


def with_taps_as_inputs(folder: Path) -> None:
    """Name the layers that read the taps: SGLang and we take numbers that begin with 1 for those that write them."""
    said = json.loads((folder / "config.json").read_text())
    ids = said["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    said["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = [layer + 1 for layer in ids]
    (folder / "config.json").write_text(json.dumps(said))


def with_its_biases(folder: Path) -> None:
    """Say that the heads have biases: vLLM drops them, silently, where the published format does not say so."""
    said = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**said, "medusa_fc_bias": True}))


# Method, block size, what makes vLLM read the lab's drafter as we do, and whether all steps then are ours. An n-gram is
# looked up by rules of each engine's own.
DRAFTS = [
    ("dflash", 16, as_it_is, False),
    ("dflash", 16, with_one_k_norm, True),
    ("dflash", 8, with_one_k_norm, True),
    ("draft_model", 5, as_it_is, True),
    ("eagle3", 4, with_taps_as_inputs, True),
    ("medusa", 5, with_its_biases, True),
    ("ngram", 6, as_it_is, False),
]
FOLDERS = {"dflash": "dflash", "draft_model": "draft-model", "eagle3": "eagle3", "medusa": "medusa"}
MARK = "DFLASH_BENCH_TEST_MARK"


def spec_of(*arms: PlannedArm, **changes: Any) -> Spec:
    told: dict[str, Any] = {"ar": {"method": "ar"}}
    for arm in arms:
        told[arm.name] = {"method": arm.method, "draft": arm.draft, "block_size": arm.block_size}
    content = {
        "name": "x",
        "target": "lab",
        "arms": told,
        "workloads": ["sample-math"],
        "threads": 1,
    }
    return Spec.model_validate({**content, **changes})  # fmt: skip


def arm_of(method: str, block_size: int, draft: str | None = "lab") -> PlannedArm:
    return PlannedArm(
        name=method,
        method=method,
        draft=None if method == "ngram" else draft,
        block_size=block_size,
        num_draft_tokens=block_size - 1,
        settings={"ngram_min": 2, "ngram_max": 4} if method == "ngram" else {},
    )


def asked(runner: Runner, arm: PlannedArm, folder: Path) -> tuple[dict[str, Answer], Totals]:
    """Open `arm`, ask it the first prompts of sample-math one after another, close it."""
    items = load_items(load_workload("sample-math"), NUM_PROMPTS)
    texts = [runner.tokenizer.render(item.messages or ()) for item in items]
    requests = [
        Request(f"r{key}", tuple(runner.tokenizer.encode(text)), key, 128, text=text)
        for key, text in enumerate(texts)
    ]
    session = runner.open(arm, Opening(1, 512, log=folder / f"{runner.name}-{arm.name}.log"))
    try:
        answers = {answer.request: answer for answer in session.run(requests, Load(1))}
        return answers, session.totals()
    finally:
        session.close()


def committed(answers: dict[str, Answer]) -> dict[str, tuple[int, ...]]:
    return {name: answer.steps.committed for name, answer in answers.items() if answer.steps}


def tau(answers: dict[str, Answer]) -> float:
    told = committed(answers).values()
    assert len(told) == len(answers)
    return sum(map(sum, told)) / sum(map(len, told))


def identical(some: dict[str, Answer], others: dict[str, Answer]) -> int:
    assert all(answer.error is None for answer in [*some.values(), *others.values()])
    return sum(some[name].output_ids == others[name].output_ids for name in some)


def tau_of(acceptance: Acceptance | None, answers: dict[str, Answer]) -> float:
    """Return tau by the server's counters alone: committed after the prefill's token, over all steps."""
    assert acceptance is not None
    assert acceptance.steps
    tokens = sum(len(answer.output_ids or ()) for answer in answers.values())
    return (tokens - len(answers)) / acceptance.steps


Started = Callable[..., Runner]


@pytest.fixture
def started(backend: Callable[[str], Recipe]) -> Iterator[Started]:
    """Return what starts the runner of a module for some arms; all are stopped in the end."""
    backend("vllm")
    runners: list[Runner] = []

    def start(module: Any, *arms: PlannedArm) -> Runner:
        runners.append(module.make(spec_of(*arms)))
        runners[-1].start()
        return runners[-1]

    yield start
    for runner in runners:
        runner.stop()


def test_plain_decoding_says_what_the_reference_engine_says(
    started: Started, tmp_path: Path, record_row: Callable[..., None]
) -> None:
    theirs, totals = asked(started(vllm), AR, tmp_path)
    same = identical(theirs, asked(started(reference), AR, tmp_path)[0])
    record_row("vllm", totals.backend["version"], "ar", None, None, same, NUM_PROMPTS)
    assert same == NUM_PROMPTS
    assert totals.acceptance is None
    assert totals.backend["prefix_cache"] is False
    assert "complaints" not in totals.backend
    assert "invalid" not in totals.backend


@pytest.mark.parametrize(("method", "block_size", "mended", "exact"), DRAFTS)
def test_drafting_changes_no_text_and_takes_our_steps(
    started: Started,
    tmp_path: Path,
    record_row: Callable[..., None],
    method: str,
    block_size: int,
    mended: Callable[[Path], None],
    exact: bool,
) -> None:
    draft = tmp_path / "drafter"
    if method in FOLDERS:
        shutil.copytree(MODELS / FOLDERS[method], draft)
        mended(draft)
    arm = arm_of(method, block_size, str(draft))
    theirs, totals = asked(started(vllm, arm), arm, tmp_path)
    here, _ = asked(started(reference, arm), arm, tmp_path)
    same, counted = identical(theirs, here), tau_of(totals.acceptance, theirs)
    name = f"{method} b{block_size}" + ("" if mended is as_it_is else f", {mended.__name__}")
    record_row("vllm", totals.backend["version"], name, counted, tau(here), same, NUM_PROMPTS)
    assert same == NUM_PROMPTS
    assert "complaints" not in totals.backend
    assert "invalid" not in totals.backend
    assert totals.backend["num_speculative_tokens"] == block_size - 1
    assert counted == pytest.approx(tau(theirs))  # counters, and the steps that the answers list
    if exact:
        assert committed(theirs) == committed(here)


def test_sampling_under_speculation_is_refused(backend: Callable[[str], Recipe]) -> None:
    server = vllm.make(spec_of(), backend("vllm"))
    hot = Cell(workload="sample-math", batch_size=1, context_length=None, temperature=1.0)
    assert "wrong law" in str(server.refusal(arm_of("dflash", 16), hot))
    assert server.refusal(AR, hot) is None


def test_a_start_that_fails_says_what_the_log_says(started: Started, tmp_path: Path) -> None:
    """The lab's target has no multi-token head."""
    arm = PlannedArm(name="mtp", method="mtp", block_size=2, num_draft_tokens=1)
    with pytest.raises(InfrastructureError, match="Unsupported speculative method: 'mtp'"):
        started(vllm, arm).open(arm, Opening(log=tmp_path / "mtp.log"))


def bench(folder: Path, mark: str) -> "subprocess.Popen[str]":
    """Begin a sweep of the markov pair through the command line; its servers carry `mark` in their environment."""
    (folder / "abc.jsonl").write_text('{"text": "abc"}\n' * 4)
    spec = {
        "schema_version": 1,
        "name": "markov",
        "runner": "vllm",
        "target": "markov",
        "arms": {
            "ar": {"method": "ar"},
            "dflash": {"method": "dflash", "draft": "markov", "block_size": 8},
        },
        "workloads": ["./abc.jsonl"],
        "server": {"env": {MARK: mark}},
        "sampling": {"max_new_tokens": 40},
        "design": {"prompts": 4, "rounds": 1, "warmup_prompts": 1},
    }
    (folder / "markov.yaml").write_text(json.dumps(spec))
    words = ["sweep", str(folder / "markov.yaml"), "-o", str(folder / "out")]
    return subprocess.Popen(
        [sys.executable, "-m", "dflash_bench", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def marked(mark: str) -> list[psutil.Process]:
    """Return the living processes with `mark` in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def known_answer(folder: Path) -> tuple[tuple[int, ...], float]:
    """Return what the reference engine answers to the markov pair's prompt, and its tau."""
    arm = arm_of("dflash", 8, "markov")
    engine = reference.make(spec_of(arm, target="markov"))
    engine.start()
    prompt = tuple(engine.tokenizer.encode("abc"))
    session = engine.open(arm, Opening(1, 64, log=folder / "reference.log"))
    (answer,) = session.run([Request("abc", prompt, 0, 40, text="abc")], Load(1))
    session.close()
    engine.stop()
    return tuple(answer.output_ids or ()), tau({"abc": answer})


def test_a_sweep_of_the_known_answer_counts_the_reference_engines_tau_and_leaves_nothing(
    backend: Callable[[str], Recipe], tmp_path: Path, record_row: Callable[..., None]
) -> None:
    backend("vllm")
    mark = uuid.uuid4().hex
    with bench(tmp_path, mark) as done:
        printed, _ = done.communicate()
    assert done.returncode == 0, printed
    assert marked(mark) == []
    records = (tmp_path / "out" / "records.jsonl").read_text()
    lines = [json.loads(line) for line in records.splitlines()]
    ends = {line["visit"]: line for line in lines if line["kind"] == "visit_end"}
    asked = [line for line in lines if line["kind"] == "request"]
    ids = [line["output_ids"] for line in asked]
    assert all(answer == ids[0] for answer in ids)
    said, expected = known_answer(tmp_path)
    assert len(said) == 40
    same = sum(tuple(answer) == said for answer in ids)
    assert same == len(ids)
    logs = {end["backend"]["log"] for end in ends.values()}
    assert (
        len(logs) == len(ends) == 6
    )  # a server of its own for each round and arm, and for the controls
    measured = next(end for visit, end in ends.items() if visit.endswith("r1/dflash"))
    accepted = measured["acceptance"]
    # Of each request's 40 tokens 39 come of 30 steps that accept 0, 0, 1, ...; the last accepts one past the limit.
    assert (accepted["steps"], accepted["accepted"], accepted["drafted"]) == (120, 40, 840)
    assert accepted["overshoot"] == 4
    cell = next(
        c for c in json.loads((tmp_path / "out" / "cells.json").read_text()) if c["arm"] == "dflash"
    )
    found = cell["acceptance_length"]["value"]
    version = measured["backend"]["version"]
    record_row("vllm", version, "dflash markov", found, expected, same, len(ids))
    assert found == pytest.approx(expected)


def test_a_killed_sweep_takes_its_server_along(
    backend: Callable[[str], Recipe], tmp_path: Path
) -> None:
    backend("vllm")
    mark = uuid.uuid4().hex
    with bench(tmp_path, mark) as running:
        while not marked(mark) and running.poll() is None:
            time.sleep(0.1)
        assert marked(mark)
        os.kill(running.pid, signal.SIGKILL)
    gone = time.monotonic() + 120
    while marked(mark) and time.monotonic() < gone:
        time.sleep(0.2)
    assert marked(mark) == []
