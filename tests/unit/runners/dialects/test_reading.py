"""Answers of shapes that no server should send, and text that no file can hold."""

import json
from typing import Any

import pytest

from dflash_bench.runners.dialects import DIALECTS
from dflash_bench.runners.dialects.reading import read_reply, writable

END = {"index": 0, "text": "x", "finish_reason": "stop"}
USAGE = {"prompt_tokens": 3, "completion_tokens": 1}
NULLS: dict[str, Any] = {"prompt_tokens": 3, "completion_tokens": None, "prompt_tokens_details": []}
TEXTS = {"prompt_tokens": 3, "completion_tokens": "many"}
DONE = {"type": "stop", "matched": 2}


def read(dialect: str, *payloads: Any) -> Any:
    events = [(float(n), json.dumps(payload).encode()) for n, payload in enumerate(payloads)]
    return read_reply(DIALECTS[dialect](), events)


@pytest.mark.parametrize(
    ("dialect", "payload"),
    [
        ("openai", {"choices": [None]}),
        ("openai", {"choices": "none"}),
        ("openai", {"choices": [END], "usage": NULLS}),
        ("openai", {"choices": [END], "usage": TEXTS}),
        ("openai", {"choices": [END], "usage": {"completion_tokens": -4}}),
        ("openai", {"choices": [{**END, "finish_reason": {"type": "stop"}}], "usage": [1]}),
        ("vllm", {"choices": [END], "usage": USAGE, "metrics": {"speculative_decoding": {}}}),
        ("vllm", {"choices": [{**END, "token_ids": ["a"]}], "usage": USAGE}),
        ("vllm", {"choices": [END], "usage": USAGE, "metrics": {"queue_time_ms": "long"}}),
        ("sglang", {"text": "x", "meta_info": None}),
        ("sglang", {"text": "x", "meta_info": {"finish_reason": DONE}}),
        (
            "sglang",
            {"meta_info": {"finish_reason": DONE, "completion_tokens": 0, "prompt_tokens": "3"}},
        ),
        ("llama.cpp", {"stop": True}),
        ("llama.cpp", {"stop": True, "tokens_predicted": float("inf")}),
        ("llama.cpp", {"stop": True, "tokens_predicted": 1, "timings": [1]}),
    ],
)
def test_garbage_is_an_error_of_its_request(dialect: str, payload: dict[str, Any]) -> None:
    answer = read(dialect, payload)
    assert f"not what a server of dialect {dialect} sends" in answer.error
    assert answer.output_tokens is None


def test_halves_of_a_pair_are_joined_across_events_and_others_replaced() -> None:
    high, low = "\ud83d", "\ude00"
    end = {"choices": [{**END, "text": low + " " + high + "b"}], "usage": USAGE}
    answer = read("openai", {"choices": [{"index": 0, "text": "a" + high}]}, end)
    assert answer.text == "a\N{GRINNING FACE} \N{REPLACEMENT CHARACTER}b"
    assert read("openai", {"error": {"message": low}}).error.endswith("\N{REPLACEMENT CHARACTER}")
    assert writable("end " + high) == "end \N{REPLACEMENT CHARACTER}"
    assert writable("\ufeffé\N{GRINNING FACE}") == "\ufeffé\N{GRINNING FACE}"
