"""What llama.cpp's server said, read twice: by our dialect, and by its clock, which moves once a pass."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.runners.dialects import DIALECTS, Reply
from dflash_bench.runners.dialects.base import gained_between

RECORDINGS = Path(__file__).parents[2] / "recordings" / "llama.cpp"
WHOLE = [
    "markov-dflash",
    "lab-dflash",
    "lab-draft-model",
    "lab-eagle3",
    "lab-ngram",
    "one-token",
    "stop-text",
]


def payloads(name: str) -> list[bytes]:
    lines = (RECORDINGS / name).read_bytes().split(b"\n\n")
    return [line.removeprefix(b"data: ") for line in lines if line.startswith(b"data: ")]


def reply(name: str) -> Reply:
    return DIALECTS["llama.cpp"]().reply([(float(i), p) for i, p in enumerate(payloads(name))])


def answer(name: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text())
    return told


@pytest.mark.parametrize("name", WHOLE)
def test_a_stream_says_what_the_whole_answer_says(name: str) -> None:
    told, read = answer(name), reply(f"{name}.steps.sse")
    assert read.ids == tuple(told["tokens"])
    assert read.text == told["content"]
    assert read.output_tokens == told["tokens_predicted"]
    assert read.prompt_tokens == told["tokens_evaluated"]
    assert read.cached_tokens == 0
    assert [tokens for _, tokens in read.chunks] == [1] * told["tokens_predicted"]


@pytest.mark.parametrize("name", WHOLE)
def test_the_steps_are_those_of_its_clock(name: str) -> None:
    events = [json.loads(payload) for payload in payloads(f"{name}.steps.sse")]
    timings = [event["timings"] for event in events if not event["stop"]]
    passes = [list(group) for _, group in groupby(timings[1:], lambda t: t["predicted_ms"])]
    read = reply(f"{name}.steps.sse")
    assert read.steps is not None
    assert read.acceptance is not None
    assert list(read.steps.committed) == [len(tokens) for tokens in passes]
    assert sum(read.steps.drafted) == timings[-1].get("draft_n", 0)
    counted = read.acceptance.steps, read.acceptance.accepted, read.acceptance.overshoot
    steps, accepted, overshoot = (count or 0 for count in counted)
    assert steps + accepted - overshoot == len(timings) - 1


def test_an_accepted_draft_past_the_end_is_overshoot() -> None:
    cut = reply("lab-draft-model.steps.sse").acceptance
    assert cut is not None
    assert (cut.steps, cut.accepted, cut.overshoot) == (11, 38, 1)


def test_without_a_tokens_own_timings_steps_are_known_at_the_limit_only() -> None:
    at_limit, at_eos = reply("markov-dflash.sse").acceptance, reply("lab-dflash.sse").acceptance
    assert at_limit is not None
    assert at_eos is not None
    assert at_limit.steps == 30
    assert (at_eos.steps, at_eos.drafted, at_eos.accepted) == (None, 63, 39)


def test_plain_decoding_has_no_acceptance() -> None:
    read = reply("markov-ar.steps.sse")
    assert read.acceptance is None
    assert read.output_tokens == 40


def test_ids_that_a_stream_lost_are_not_made_up() -> None:
    told, read = answer("incomplete-utf8"), reply("incomplete-utf8.steps.sse")
    assert len(told["tokens"]) == 16
    assert len(payloads("incomplete-utf8.steps.sse")) == 16  # 15 tokens and the end
    assert read.ids is None
    assert read.output_tokens == 16


def test_counters_of_a_visit_agree_with_the_requests() -> None:
    dialect = DIALECTS["llama.cpp"]()
    before, after = (
        dialect.counters((RECORDINGS / f"markov-dflash.metrics-{when}.txt").read_text())
        for when in ("before", "after")
    )
    assert before is not None
    assert after is not None
    told, restarts = gained_between(dialect, before, after)
    gained = told.acceptance
    assert gained is not None
    assert [*restarts, *told.doubts] == []
    assert (gained.drafted, gained.accepted) == (186, 9)
    assert gained.accepted_per_position == (9, 0, 0, 0, 0, 0, 0)
