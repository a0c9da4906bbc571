"""The contract of all backends: forty tokens whose acceptance is known by construction, as each server tells them.

The markov pair: the target says a, b, c, d in turn, the drafter always c, so that every third step accepts one draft.
Of 39 decoded tokens that makes 30 steps. Servers count the last one differently: vLLM accepts a draft past the limit,
llama.cpp has no room for one and decodes without; both are 30 steps, and tau is 39/30 for all.
"""

from pathlib import Path

import pytest

from dflash_bench.records.schema import Acceptance
from dflash_bench.runners.acceptance.canonical import check, of_steps, pooled, tau
from dflash_bench.runners.acceptance.step_lists import (
    MLX,
    MLX_SNAPSHOT,
    TRANSFORMERS,
    TRANSFORMERS_SNAPSHOT,
    Style,
    of_list,
)
from dflash_bench.runners.client import sse
from dflash_bench.runners.dialects import DIALECTS, Reply
from dflash_bench.runners.dialects.base import gained_between

RECORDINGS = Path(__file__).parents[3] / "recordings"
TEXT = "dabc" * 10
COMMITTED = (1, 1, 2) * 9 + (1, 1, 1)


def reply(dialect: str, name: str) -> Reply:
    path = RECORDINGS / name
    content = path.read_bytes()
    is_stream = path.suffix == ".sse"
    events = sse.events([(1.0, content)]) if is_stream else [(1.0, content)]
    return DIALECTS[dialect]().reply(list(events))


STREAMS = [
    ("vllm", "vllm/markov-completion-0.sse"),
    ("llama.cpp", "llama.cpp/markov-dflash.steps.sse"),
    ("sglang", "sglang/from_source/markov-dflash.sse"),
    ("sglang", "sglang/from_source/markov-dflash-incremental.sse"),
]


@pytest.mark.parametrize(("dialect", "name"), STREAMS)
def test_a_stream_tells_39_tokens_of_30_steps_each_as_it_was(dialect: str, name: str) -> None:
    answer = reply(dialect, name)
    assert (answer.error, answer.output_tokens, answer.finish_reason) == (None, 40, "length")
    assert answer.text == TEXT
    assert answer.ids is not None
    assert len(answer.ids) == 40
    assert answer.steps is not None
    assert answer.steps.committed == COMMITTED
    assert answer.acceptance is not None
    assert tau(answer.acceptance, 40) == 39 / 30
    assert check(answer.acceptance, 40) == []


@pytest.mark.parametrize(
    ("dialect", "name"),
    [
        ("llama.cpp", "llama.cpp/markov-dflash.sse"),
        ("llama.cpp", "llama.cpp/markov-dflash.json"),
        ("sglang", "sglang/from_source/markov-dflash-old-names.json"),
    ],
)
def test_without_running_counts_the_sums_are_the_same(dialect: str, name: str) -> None:
    answer = reply(dialect, name)
    assert answer.steps is None
    assert answer.acceptance is not None
    assert tau(answer.acceptance, 40) == 39 / 30
    assert check(answer.acceptance, 40) == []


def test_what_differs_is_the_last_step_alone() -> None:
    records = {dialect: reply(dialect, name).acceptance for dialect, name in STREAMS[:3]}
    counts = {
        dialect: (a.steps, a.plain_steps, a.drafted, a.accepted, a.overshoot)
        for dialect, a in records.items()
        if a is not None
    }
    assert counts == {
        "vllm": (30, 0, 210, 10, 1),
        "llama.cpp": (30, 1, 186, 9, 0),
        "sglang": (30, None, 210, 10, 1),
    }


def between(dialect: str, before: str, after: str) -> tuple[Acceptance | None, list[str]]:
    tongue = DIALECTS[dialect]()
    first = tongue.counters((RECORDINGS / before).read_text())
    second = tongue.counters((RECORDINGS / after).read_text())
    assert first is not None
    assert second is not None
    gained, restarts = gained_between(tongue, first, second)
    return gained.acceptance, [*restarts, *gained.doubts]


@pytest.mark.parametrize(
    ("dialect", "folder"),
    [
        ("vllm", "vllm/markov-metrics"),
        ("tensorrt-llm", "tensorrt-llm/from_source/prometheus"),
    ],
)
def test_counters_of_a_server_tell_the_same_tau(dialect: str, folder: str) -> None:
    acceptance, complaints = between(dialect, f"{folder}-before.txt", f"{folder}-after.txt")
    assert complaints == []
    assert acceptance is not None
    assert tau(acceptance, 40) == 39 / 30
    assert check(acceptance, 40) == []
    assert acceptance.histogram == (20, 10, 0, 0, 0, 0, 0, 0)


def test_sglangs_counters_tell_steps_and_nothing_of_what_was_accepted() -> None:
    folder = "sglang/from_source/metrics"
    acceptance, _ = between("sglang", f"{folder}-before.txt", f"{folder}-after.txt")
    assert acceptance is not None
    assert tau(acceptance, 40) == 39 / 30
    assert (acceptance.drafted, acceptance.accepted, acceptance.overshoot) == (210, None, None)


@pytest.mark.parametrize(
    ("dialect", "folder", "sums"),
    [
        ("llama.cpp", "llama.cpp/markov-dflash.metrics", (186, 9)),
        ("lmdeploy", "lmdeploy/from_source/metrics", (210, 10)),
    ],
)
def test_counters_without_requests_leave_the_steps_open(
    dialect: str, folder: str, sums: tuple[int, int]
) -> None:
    acceptance, _ = between(dialect, f"{folder}-before.txt", f"{folder}-after.txt")
    assert acceptance is not None
    assert (acceptance.steps, acceptance.drafted, acceptance.accepted) == (None, *sums)
    assert check(acceptance) == []


def test_iterations_that_reading_empties_are_the_visit_whatever_was_read_before() -> None:
    name = "tensorrt-llm/from_source/iterations.json"
    acceptance, complaints = between("tensorrt-llm", name, name)
    assert complaints == []
    assert acceptance is not None
    assert (acceptance.drafted, acceptance.accepted) == (210, 10)


@pytest.mark.parametrize(
    ("style", "told"),
    [
        (TRANSFORMERS, [1, 1, 2] * 9 + [1, 1, 1]),
        (TRANSFORMERS_SNAPSHOT, [1, 1, 2] * 10),
        (MLX, [None, *([1, 1, 2] * 9), 1, 1, 1, None]),
        (MLX_SNAPSHOT, [1, *([1, 1, 2] * 10), 0]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_upstreams_loops_tell_the_same_steps(style: Style, told: list[int | None]) -> None:
    steps = of_list(told, style, output_tokens=40, block_size=8, max_new_tokens=40)
    record = of_steps(style.name, steps)
    assert steps.committed == COMMITTED
    assert tau(record, 40) == 39 / 30
    assert check(record, 40) == []


def test_answers_and_counters_of_one_visit_agree() -> None:
    answer = reply("vllm", "vllm/markov-completion-0.sse").acceptance
    counted, _ = between("vllm", "vllm/markov-metrics-before.txt", "vllm/markov-metrics-after.txt")
    assert answer is not None
    assert counted is not None
    assert pooled(counted.source, [answer]) == counted
