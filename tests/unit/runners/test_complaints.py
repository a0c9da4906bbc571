"""What real servers told, held against what their arms are called: no complaint, unless the label is wrong."""

from pathlib import Path

import pytest

from dflash_bench.plan import PlannedArm
from dflash_bench.records.schema import Answer
from dflash_bench.runners.client import sse
from dflash_bench.runners.dialects import DIALECTS
from dflash_bench.runners.dialects.base import gained_between
from dflash_bench.runners.dialects.reading import read_reply
from dflash_bench.runners.server.complaints import incoherent, mislabelled

RECORDINGS = Path(__file__).parents[2] / "recordings"
DRAFTS = PlannedArm(name="it", method="dflash")
PLAIN = PlannedArm(name="it", method="ar")
LONG = Answer(request="r", output_tokens=40)


def answered(dialect: str, path: Path) -> Answer:
    reply = read_reply(DIALECTS[dialect](), list(sse.events([(0.0, path.read_bytes())])))
    return Answer(
        request=path.stem,
        error=reply.error,
        output_tokens=reply.output_tokens,
        acceptance=reply.acceptance,
    )


@pytest.mark.parametrize(
    ("dialect", "name", "is_plain"),
    [
        ("vllm", "vllm/dflash-metrics-{}.txt", False),
        ("vllm", "vllm/ngram-metrics-{}.txt", False),
        ("vllm", "vllm/markov-metrics-{}.txt", False),
        ("vllm", "vllm/ar-metrics-{}.txt", True),
        ("sglang", "sglang/dflash.metrics-{}.txt", False),
        ("sglang", "sglang/ar.metrics-{}.txt", True),
        ("llama.cpp", "llama.cpp/lab-ngram.metrics-{}.txt", False),
        ("llama.cpp", "llama.cpp/markov-ar.metrics-{}.txt", True),
    ],
)
def test_counters_of_real_servers_tell_a_drafting_one_from_a_plain_one(
    dialect: str, name: str, is_plain: bool
) -> None:
    tongue = DIALECTS[dialect]()
    before, after = (
        tongue.counters((RECORDINGS / name.format(when)).read_text())
        for when in ("before", "after")
    )
    assert before is not None
    assert after is not None
    gained, restarts = gained_between(tongue, before, after)
    counted, backend = gained.acceptance, gained.backend
    assert [*restarts, *gained.doubts] == []
    assert incoherent(counted, []) == []
    assert bool(mislabelled(DRAFTS, backend, counted, [LONG], would_tell=True)) == is_plain
    assert bool(mislabelled(PLAIN, backend, counted, [LONG], would_tell=True)) == (not is_plain)
    assert not mislabelled(DRAFTS, backend, None, [LONG], would_tell=False)


@pytest.mark.parametrize(
    ("dialect", "name", "is_plain"),
    [
        ("llama.cpp", "llama.cpp/lab-ngram.steps.sse", False),
        ("llama.cpp", "llama.cpp/lab-dflash.sse", False),
        ("llama.cpp", "llama.cpp/markov-ar.steps.sse", True),
        ("sglang", "sglang/dflash-0.sse", False),
        ("sglang", "sglang/dflash-two-tokens.sse", False),
        ("sglang", "sglang/ar-0.sse", True),
    ],
)
def test_answers_of_real_servers_tell_it_too(dialect: str, name: str, is_plain: bool) -> None:
    answer = answered(dialect, RECORDINGS / name)
    assert DIALECTS[dialect]().tells_drafts == "answers"
    assert incoherent(None, [answer]) == []
    assert bool(mislabelled(DRAFTS, {}, None, [answer], would_tell=True)) == is_plain
    assert bool(mislabelled(PLAIN, {}, None, [answer], would_tell=True)) == (not is_plain)


def test_an_answer_of_one_token_cannot_tell() -> None:
    short = Answer(request="r", output_tokens=1)
    assert not mislabelled(DRAFTS, {}, None, [short], would_tell=True)
    failed = Answer(request="r", error="gone")
    assert not mislabelled(DRAFTS, {}, None, [failed], would_tell=True)
    assert not mislabelled(DRAFTS, {"spec_method": "NGRAM"}, None, [LONG], would_tell=True)
