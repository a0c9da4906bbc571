"""What comes back, as servers sent it: tokens, times, reasons, errors."""

import json
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.runners.acceptance.canonical import check
from dflash_bench.runners.client import sse
from dflash_bench.runners.dialects import DIALECTS, Reply
from dflash_bench.runners.dialects.base import Event, gained_between

RECORDINGS = Path(__file__).parents[3] / "recordings"


def events(name: str) -> list[Event]:
    """The events of a recording, one a second."""
    path = RECORDINGS / name
    content = path.read_bytes()
    found = sse.events([(0.0, content)]) if path.suffix == ".sse" else [(0.0, content)]
    return [(float(number), payload) for number, (_, payload) in enumerate(found)]


def reply(dialect: str, name: str) -> Reply:
    return DIALECTS[dialect]().reply(events(name))


def stream(*chunks: dict[str, Any]) -> list[Event]:
    return [(float(n), json.dumps(chunk).encode()) for n, chunk in enumerate(chunks)]


def choice(text: str, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": text, **more}]}


def test_vllm_counts_eos_and_shows_its_id() -> None:
    answer = reply("vllm", "vllm/dflash-completion-0.sse")
    assert (answer.output_tokens, answer.finish_reason, answer.prompt_tokens) == (49, "eos", 59)
    assert answer.ids is not None
    assert len(answer.ids) == 49
    assert answer.ids[-1] == 2
    assert [tokens for _, tokens in answer.chunks] == [1, 10, 4, 14, 11, 8, 1]
    assert (answer.first_s, answer.last_s) == (0.0, 6.0)
    assert answer.cached_tokens == 0
    assert answer.queue_s == pytest.approx(8.35940008983016e-05)
    assert answer.steps is not None
    assert (answer.steps.committed, answer.steps.cut) == ((10, 4, 14, 11, 8, 1), (0,) * 5 + (1,))


@pytest.mark.parametrize("path", sorted((RECORDINGS / "vllm").glob("*.sse")), ids=lambda p: p.stem)
def test_every_recorded_answer_of_vllm_holds_the_identities(path: Path) -> None:
    answer = reply("vllm", f"vllm/{path.name}")
    if answer.error is not None:
        assert "not yet supported with speculative decoding" in answer.error
        return
    assert answer.output_tokens == sum(tokens for _, tokens in answer.chunks)
    if answer.ids is not None:
        assert len(answer.ids) == answer.output_tokens
    if answer.acceptance is not None:
        assert check(answer.acceptance, answer.output_tokens) == []
        assert answer.steps is not None
        assert sum(answer.steps.committed) == answer.output_tokens - 1


def test_vllm_tells_no_acceptance_where_a_stop_text_ended_the_answer() -> None:
    answer = reply("vllm", "vllm/dflash-stop-string.sse")
    assert (answer.finish_reason, answer.output_tokens) == ("stop", 22)
    assert (answer.acceptance, answer.steps, answer.error) == (None, None, None)


def test_vllm_counts_drafts_past_the_limit_and_they_are_cut() -> None:
    answer = reply("vllm", "vllm/dflash-max-tokens-2.sse")
    assert answer.acceptance is not None
    assert (answer.acceptance.steps, answer.acceptance.accepted) == (1, 9)
    assert answer.acceptance.overshoot == 9


def test_vllms_n_gram_shows_its_plain_passes_in_answer_and_counters_alike() -> None:
    answer = reply("vllm", "vllm/ngram-completion-0.sse").acceptance
    tongue = DIALECTS["vllm"]()
    snapshots = [
        tongue.counters((RECORDINGS / f"vllm/ngram-metrics-{when}.txt").read_text())
        for when in ("before", "after")
    ]
    assert snapshots[0] is not None
    assert snapshots[1] is not None
    gained, restarts = gained_between(tongue, snapshots[0], snapshots[1])
    counted, said, complaints = gained.acceptance, gained.backend, [*restarts, *gained.doubts]
    assert answer is not None
    assert counted is not None
    assert (answer.steps, answer.plain_steps) == (counted.steps, counted.plain_steps) == (41, 31)
    assert complaints == []
    assert said["prefix_cache"] is False
    assert said["num_speculative_tokens"] == 5


def test_a_whole_answer_has_no_chunks() -> None:
    answer = reply("vllm", "vllm/dflash-whole.json")
    assert (answer.output_tokens, answer.chunks, answer.first_s) == (49, (), None)
    assert answer.ids is not None
    assert answer.ids[-1] == 2


LLAMA = [
    path.stem
    for path in sorted((RECORDINGS / "llama.cpp").glob("*.steps.sse"))
    if not path.stem.startswith(("markov-ar", "incomplete-utf8"))
]


def test_a_token_without_an_event_costs_ids_and_steps_and_no_counts() -> None:
    answer = reply("llama.cpp", "llama.cpp/incomplete-utf8.steps.sse")
    assert (answer.ids, answer.steps, answer.output_tokens) == (None, None, 16)
    assert answer.acceptance is not None
    assert check(answer.acceptance, 16) == []


@pytest.mark.parametrize("name", LLAMA)
def test_every_recorded_answer_of_llama_cpp_tells_its_steps(name: str) -> None:
    answer = reply("llama.cpp", f"llama.cpp/{name}.sse")
    assert answer.error is None
    assert answer.acceptance is not None
    assert answer.steps is not None
    assert answer.output_tokens is not None
    assert check(answer.acceptance, answer.output_tokens) == []
    assert sum(answer.steps.committed) == answer.output_tokens - 1
    assert sum(tokens for _, tokens in answer.chunks) == answer.output_tokens


def test_llama_cpp_counts_drafts_past_eos_and_they_are_cut() -> None:
    answer = reply("llama.cpp", "llama.cpp/lab-draft-model.steps.sse")
    assert answer.finish_reason == "eos"
    assert answer.acceptance is not None
    assert (answer.acceptance.steps, answer.acceptance.overshoot) == (11, 1)


def test_llama_cpp_that_drafts_nothing_has_no_acceptance() -> None:
    answer = reply("llama.cpp", "llama.cpp/markov-ar.steps.sse")
    assert (answer.output_tokens, answer.acceptance, answer.steps) == (40, None, None)


def test_llama_cpp_shows_no_ids_where_a_token_had_no_event() -> None:
    held_back = events("llama.cpp/markov-dflash.steps.sse")
    del held_back[5]
    answer = DIALECTS["llama.cpp"]().reply(held_back)
    assert (answer.output_tokens, answer.ids, answer.steps) == (40, None, None)
    assert sum(tokens for _, tokens in answer.chunks) == 40
    assert answer.acceptance is not None
    assert answer.acceptance.steps == 30


def test_sglang_is_cumulative_or_not_and_reads_the_same() -> None:
    cumulative = reply("sglang", "sglang/from_source/markov-dflash.sse")
    incremental = reply("sglang", "sglang/from_source/markov-dflash-incremental.sse")
    assert cumulative == incremental


def test_sglang_says_why_it_aborted() -> None:
    answer = reply("sglang", "sglang/from_source/aborted.sse")
    assert answer.error == "the server aborted the request: Input is too long."


def test_an_answer_that_ended_in_nan_is_an_error() -> None:
    finish = {"type": "stop", "matched": "NaN happened"}
    meta = {"completion_tokens": 3, "prompt_tokens": 2, "finish_reason": finish}
    payload = json.dumps({"text": "x", "output_ids": [1, 2, 3], "meta_info": meta}).encode()
    assert "NaN" in (DIALECTS["sglang"]().reply([(0.0, payload)]).error or "")


def test_of_a_request_that_was_retracted_no_record_is_made() -> None:
    text = (RECORDINGS / "sglang/markov.json").read_text()
    told = json.loads(text)
    assert DIALECTS["sglang"]().reply([(0.0, text.encode())]).acceptance is not None
    told["meta_info"]["num_retractions"] = 1
    assert DIALECTS["sglang"]().reply([(0.0, json.dumps(told).encode())]).acceptance is None


def test_sglangs_mean_of_all_time_says_nothing_of_a_visit() -> None:
    tongue = DIALECTS["sglang"]()
    info = tongue.counters((RECORDINGS / "sglang/from_source/server-info.json").read_text())
    assert info is not None
    gained, restarts = gained_between(tongue, info, info)
    assert (gained.acceptance, gained.backend, [*restarts, *gained.doubts]) == (None, {}, [])


@pytest.mark.parametrize("route", ["meta-info", "sglext"])
def test_sglangs_fields_are_found_on_every_route(route: str) -> None:
    from dflash_bench.runners.acceptance.sglang import told_in

    name = f"sglang/from_source/markov-dflash-openai-{route}.json"
    told = told_in(json.loads((RECORDINGS / name).read_text()))
    assert told is not None
    assert (told["spec_verify_ct"], told["spec_num_correct_drafts"]) == (30, 10)


def test_lmdeploy_counts_the_token_that_ended_the_text() -> None:
    answer = reply("lmdeploy", "lmdeploy/from_source/completion.sse")
    assert (answer.output_tokens, answer.text, answer.chunks) == (7, "Let us work it out.", ())
    assert (answer.first_s, answer.last_s) == (0.0, 2.0)


def test_chunks_without_counts_are_not_counted_as_tokens() -> None:
    answer = DIALECTS["openai"]().reply(
        stream(
            choice("two tokens"),
            choice(" and more", finish_reason="stop"),
            {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5}},
        )
    )
    assert (answer.output_tokens, answer.chunks) == (5, ())
    assert (answer.first_s, answer.last_s) == (0.0, 1.0)


def test_one_usage_at_the_end_is_not_one_chunk_of_all_tokens() -> None:
    answer = DIALECTS["openai"]().reply(
        stream(
            choice("two tokens"),
            choice(" and more", finish_reason="length") | {"usage": {"completion_tokens": 5}},
        )
    )
    assert (answer.output_tokens, answer.chunks) == (5, ())


def test_a_usage_that_rides_on_the_end_does_not_hide_the_first_token() -> None:
    end = choice("", finish_reason="stop") | {"usage": {"completion_tokens": 4}}
    payloads = [(1.0, choice("all of the text")), (5.0, end)]
    answer = DIALECTS["openai"]().reply([(at_s, json.dumps(p).encode()) for at_s, p in payloads])
    assert (answer.output_tokens, answer.first_s, answer.chunks) == (4, 1.0, ())


@pytest.mark.parametrize("dialect", ["vllm", "openai", "lmdeploy", "tensorrt-llm"])
@pytest.mark.parametrize("reason", ["abort", "error"])
def test_a_request_that_the_server_gave_up_is_an_error(dialect: str, reason: str) -> None:
    end = choice(" b", finish_reason=reason) | {"usage": {"completion_tokens": 2}}
    answer = DIALECTS[dialect]().reply(stream(choice("a"), end))
    assert answer.error == f"the server gave the request up (finish_reason '{reason}')"
    assert answer.output_tokens is None


def test_lmdeploy_adds_a_token_for_eos_alone() -> None:
    for reason, tokens in (("stop", 3), ("length", 2), ("tool_calls", 2)):
        end = choice(" b", finish_reason=reason) | {"usage": {"completion_tokens": 2}}
        assert DIALECTS["lmdeploy"]().reply(stream(choice("a"), end)).output_tokens == tokens


def test_a_first_token_without_text_is_the_first_token() -> None:
    answer = DIALECTS["openai"]().reply(
        stream(
            choice("") | {"usage": {"completion_tokens": 1}},
            choice("é", finish_reason="length") | {"usage": {"completion_tokens": 2}},
        )
    )
    assert answer.chunks == ((0.0, 1), (1.0, 1))
    assert answer.first_s == 0.0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_cannot_be_read_is_an_error_and_no_exception(dialect: str) -> None:
    tongue = DIALECTS[dialect]()
    for payloads in ((), (b"<html>502</html>",), (b"[1, 2]",), (b"[DONE]",), (b"{}",)):
        answer = tongue.reply([(0.0, payload) for payload in payloads])
        assert answer.error, payloads
        assert answer.output_tokens is None


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_inside_a_stream_is_the_answers_error(dialect: str) -> None:
    broken = b'{"error": {"message": "out of memory", "code": 500}}'
    answer = DIALECTS[dialect]().reply([(0.0, broken), (0.1, b"[DONE]")])
    assert answer.error == "the server broke off: out of memory"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_counters_that_restarted_say_nothing(dialect: str) -> None:
    tongue = DIALECTS[dialect]()
    before = tongue.counters("# TYPE x_total counter\nx_total 5\n")
    after = tongue.counters("# TYPE x_total counter\nx_total 1\n")
    assert before is not None
    assert after is not None
    gained, complaints = gained_between(tongue, before, after)
    assert (gained.acceptance, gained.backend) == (None, {})
    assert len(complaints) == 1
    assert "x_total went from 5 to 1" in complaints[0]
