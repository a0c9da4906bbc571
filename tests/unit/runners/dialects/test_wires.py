"""What goes out: every setting of sampling is written down, in each server's own words."""

from typing import Any

import pytest

from dflash_bench.runners.base import Request
from dflash_bench.runners.dialects import DIALECTS
from dflash_bench.runners.dialects.base import seed_of
from dflash_bench.spec import SamplingSpec

REQUEST = Request("r1", (68, 69, 70), key=3, max_new_tokens=40, stop=("\n\n",), text="abc")
SAMPLING = SamplingSpec(
    seed=5,
    top_k=20,
    top_p=0.9,
    repetition_penalty=1.5,
    presence_penalty=0.5,
    frequency_penalty=0.25,
)
# Where each setting lies: its name in this server's words, per dialect.
NAMES: dict[str, dict[str, str]] = {
    "openai": {"limit": "max_tokens", "repetition": "repetition_penalty", "seed": "seed"},
    "vllm": {"limit": "max_tokens", "repetition": "repetition_penalty", "seed": "seed"},
    "tensorrt-llm": {"limit": "max_tokens", "repetition": "repetition_penalty", "seed": "seed"},
    "lmdeploy": {
        "limit": "max_completion_tokens",
        "repetition": "repetition_penalty",
        "seed": "seed",
    },
    "sglang": {
        "limit": "max_new_tokens",
        "repetition": "repetition_penalty",
        "seed": "sampling_seed",
    },
    "llama.cpp": {"limit": "n_predict", "repetition": "repeat_penalty", "seed": "seed"},
}


def settings(dialect: str, sampling: SamplingSpec, temperature: float = 0.7) -> dict[str, Any]:
    body = DIALECTS[dialect]().wire(REQUEST, sampling, temperature, "target").body
    inner: dict[str, Any] = body.get("sampling_params", body)
    return inner


def test_every_dialect_is_tested_here() -> None:
    assert NAMES.keys() == DIALECTS.keys()
    assert all(DIALECTS[name]().name == name for name in DIALECTS)


@pytest.mark.parametrize("dialect", NAMES)
def test_the_whole_of_sampling_goes_out(dialect: str) -> None:
    asked, names = settings(dialect, SAMPLING), NAMES[dialect]
    assert asked[names["limit"]] == 40
    assert asked["temperature"] == 0.7
    assert (asked["top_k"], asked["top_p"], asked["min_p"]) == (20, 0.9, 0.0)
    assert asked[names["repetition"]] == 1.5
    assert (asked["presence_penalty"], asked["frequency_penalty"]) == (0.5, 0.25)
    assert asked[names["seed"]] == seed_of(SAMPLING, REQUEST)
    assert asked["stop"] == ["\n\n"]
    assert asked["ignore_eos"] is False


@pytest.mark.parametrize("dialect", NAMES)
def test_a_neutral_sampling_cuts_nothing(dialect: str) -> None:
    asked = settings(dialect, SamplingSpec(), temperature=0.0)
    assert asked["temperature"] == 0.0
    assert asked["top_k"] in (0, -1)
    assert (asked["top_p"], asked["min_p"]) == (1.0, 0.0)
    assert asked[NAMES[dialect]["repetition"]] == 1.0


@pytest.mark.parametrize("dialect", NAMES)
def test_the_prompt_goes_as_ids_where_the_server_takes_them(dialect: str) -> None:
    tongue = DIALECTS[dialect]()
    body = tongue.wire(REQUEST, SAMPLING, 0.0, "target").body
    prompt = body.get("input_ids", body.get("prompt"))
    assert prompt == ([68, 69, 70] if tongue.takes_ids else "abc")
    assert body["stream"] is True


@pytest.mark.parametrize("dialect", ["openai", "vllm", "lmdeploy", "tensorrt-llm"])
def test_openais_format_names_the_model_and_asks_for_counts(dialect: str) -> None:
    body = DIALECTS[dialect]().wire(REQUEST, SAMPLING, 0.0, "target").body
    assert body["model"] == "target"
    assert body["stream_options"]["include_usage"] is True


def test_llama_cpp_reuses_no_prompt_and_penalizes_the_whole_text() -> None:
    body = DIALECTS["llama.cpp"]().wire(REQUEST, SAMPLING, 0.0, "target").body
    assert body["cache_prompt"] is False
    assert body["repeat_last_n"] == 43
    assert body["timings_per_token"] is True


def test_a_seed_belongs_to_a_request_and_a_run() -> None:
    other = Request("r2", (68,), key=5, max_new_tokens=1)
    seeds = {
        seed_of(SamplingSpec(seed=seed), request) for seed in (3, 5) for request in (REQUEST, other)
    }
    assert len(seeds) == 4
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seed_of(SAMPLING, REQUEST) == seed_of(SAMPLING, REQUEST)
