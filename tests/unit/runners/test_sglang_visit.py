"""A visit to SGLang, from recordings of a real server: every request, count and complaint."""

import json
from typing import Any, cast

import pytest

from dflash_bench.plan import make_plan
from dflash_bench.records.schema import Answer, Totals
from dflash_bench.runners.base import Load, Opening, Request
from dflash_bench.runners.sglang import make
from dflash_bench.spec import Spec
from tests.fakes.replayed import Replayed, read
from tests.fakes.served import serving


def spec(arm: dict[str, Any], target: str, base_url: str) -> Spec:
    arms = {"ar": {"method": "ar"}, "it": arm}
    content = {
        "name": "t",
        "runner": "sglang",
        "target": target,
        "arms": arms,
        "base_url": base_url,
    }
    return Spec.model_validate({**content, "workloads": ["sample-math"]})


def visited(
    server: Replayed, prompts: list[int], target: str = "lab", **request: Any
) -> tuple[list[Answer], Totals]:
    """Ask `server` prompts of so many tokens as an arm that is labelled as the recordings were made."""
    block = 16 if target == "lab" else 8
    drafted = {"method": "dflash", "draft": target, "block_size": block}
    with serving(cast(Any, server)) as url:
        runner = make(spec(drafted, target, url))
        runner.start()
        session = runner.open(make_plan(runner.spec).arms["it"], Opening())
        requests = [
            Request(f"r{n}", (5,) * size, n, request.get("most", 128), request.get("stop", ()))
            for n, size in enumerate(prompts)
        ]
        answers = list(session.run(requests, Load(batch_size=1)))
        totals = session.totals()
        session.close()
    return answers, totals


def test_a_visit_is_read_from_what_a_server_told() -> None:
    metrics = ("dflash.metrics-before.txt", "dflash.metrics-after.txt")
    server = Replayed({59: "dflash-0.sse", 56: "dflash-1.sse"}, metrics)
    answers, totals = visited(server, [59, 56])
    first, second = answers
    assert [answer.error for answer in answers] == [None, None]
    assert (first.output_tokens, second.output_tokens) == (49, 43)
    assert first.finish_reason == "eos"
    assert first.output_ids is not None
    assert first.output_ids[-1] == 2, "EOS is an output token"
    assert first.acceptance is not None
    told = first.acceptance
    assert (told.steps, told.drafted, told.accepted, told.overshoot) == (5, 75, 44, 1)
    assert first.steps is not None
    assert first.steps.committed == (14, 14, 9, 6, 5)
    assert totals.acceptance is not None
    assert totals.acceptance.steps == 14
    assert totals.backend["version"] == "0.5.23"
    assert totals.backend["max_requests"] == 4
    assert "preemptions" not in totals.backend, "SGLang shows that counter from the first one on"
    assert "complaints" not in totals.backend
    assert server.flushes == 0, "it is not ours"


def test_the_request_leaves_nothing_to_a_servers_defaults() -> None:
    server = Replayed({59: "dflash-0.sse"}, ("dflash.metrics-before.txt",) * 2)
    visited(server, [59])
    sent = server.seen[0]
    settings = sent["sampling_params"]
    assert sent["input_ids"] == [5] * 59
    assert sent["stream"] is True
    asked = ("temperature", "top_p", "top_k", "min_p", "max_new_tokens", "ignore_eos")
    assert [settings[name] for name in asked] == [0.0, 1.0, -1, 0.0, 128, False]
    for penalty, none in (("repetition", 1.0), ("presence", 0.0), ("frequency", 0.0)):
        assert settings[f"{penalty}_penalty"] == none
    assert "sampling_seed" in settings


def test_markovs_steps_are_those_that_every_backend_should_tell() -> None:
    metrics = ("markov.metrics-before.txt", "markov.metrics-after.txt")
    size = prompt_tokens("markov.sse")
    server = Replayed({size: "markov.sse"}, metrics, window=8)
    (answer,), totals = visited(server, [size], "markov", most=40)
    assert answer.acceptance is not None
    told = answer.acceptance
    assert (told.steps, told.accepted, told.overshoot, told.drafted) == (30, 10, 1, 210)
    assert answer.output_tokens == 40
    assert totals.acceptance is not None
    assert totals.acceptance.steps == 30
    assert "complaints" not in totals.backend


def test_a_server_of_another_width_than_its_arm_is_complained_of() -> None:
    server = Replayed({59: "dflash-0.sse"}, ("dflash.metrics-before.txt",) * 2, window=8)
    _, totals = visited(server, [59])
    assert totals.backend["invalid"] == ["arm it asks for 15 drafts a step, and its server makes 7"]


def prompt_tokens(name: str) -> int:
    last = read(name).split("data: ")[1]
    return int(json.loads(last)["meta_info"]["prompt_tokens"])


@pytest.mark.parametrize(
    ("name", "request_", "tokens", "steps", "overshoot"),
    [
        ("dflash-cumulative.sse", {}, 49, 5, 1),
        ("dflash-two-tokens.sse", {"most": 2}, 2, 1, 13),
        ("dflash-one-token.sse", {"most": 1}, 1, None, None),
        ("dflash-stop-text.sse", {"stop": ("toys",)}, 22, 2, 7),
    ],
)
def test_ends_of_every_kind_keep_the_books(
    name: str, request_: dict[str, Any], tokens: int, steps: int | None, overshoot: int | None
) -> None:
    server = Replayed({59: name}, ("dflash.metrics-before.txt",) * 2)
    (answer,), _ = visited(server, [59], **request_)
    assert answer.error is None
    assert answer.output_tokens == tokens
    told = answer.acceptance
    if steps is None:
        assert told is None or not told.steps
        return
    assert told is not None
    assert told.steps is not None
    assert told.accepted is not None
    assert told.overshoot is not None
    assert (told.steps, told.overshoot) == (steps, overshoot)
    assert tokens - 1 == told.steps + told.accepted - told.overshoot


def test_a_prompt_that_is_too_long_is_an_error_of_its_request() -> None:
    server = Replayed({59: "dflash-too-long.sse"}, ("dflash.metrics-before.txt",) * 2)
    (answer,), _ = visited(server, [59])
    assert "longer than the model's context length" in str(answer.error)


def test_the_openai_routes_tell_the_same_numbers_in_places_of_their_own() -> None:
    details = json.loads(read("dflash-completion-details.json"))["sglext"]["spec_tokens_details"]
    chat = json.loads(read("dflash-chat-details.json"))
    for told in (details, chat["choices"][0]["meta_info"], chat["sglext"]["spec_tokens_details"]):
        numbers = [told[f"spec_{name}"] for name in ("verify_ct", "num_correct_drafts")]
        assert numbers == [5, 44]
    ignored = json.loads(read("dflash-completion-meta-info.json"))
    assert "meta_info" not in ignored["choices"][0], "asked for, and left out without a word"
