"""Recipes of servers without Python of their own: the command that each method is started with."""

import json
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.plan import PlannedArm
from dflash_bench.runners import openai
from dflash_bench.runners.convert import config_file
from dflash_bench.runners.launch import Value, arm_values, launch, refusal
from dflash_bench.runners.recipe import load_recipe
from dflash_bench.spec import Spec

NAMES = ("llama.cpp", "lmdeploy", "tensorrt-llm")


def started(name: str, method: str, **choices: Any) -> list[str]:
    """Return the words that start `method` at block 16."""
    settings = {"ngram_max": 3} if method == "ngram" else {}
    arm = PlannedArm(
        name="arm", method=method, block_size=16, num_draft_tokens=15, settings=settings
    )
    values: dict[str, Value] = {
        **arm_values(arm),
        "python": "/env/bin/python",
        "env": "/env",
        "cache": "/cache",
        "port": 8123,
        "target": Path("/models/t"),
        "draft": Path("/models/d"),
        "batch_size": 4,
        "positions": 200,
        "threads": 2,
        "dtype": "bfloat16",
    }
    choices = {"variant": None, "method": method, "dtype": "bfloat16", **choices}
    return list(launch(load_recipe(name), values, **choices).argv)


def value_of(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


@pytest.mark.parametrize("name", NAMES)
def test_every_method_of_the_recipe_has_a_command(name: str) -> None:
    recipe = load_recipe(name)
    plain = started(name, "ar")
    for method in recipe.methods:
        words = started(name, method)
        assert words[: len(plain)] == plain
        assert (words == plain) == (method == "ar")


@pytest.mark.parametrize("name", NAMES)
def test_it_listens_on_this_machine_alone_at_the_port_that_we_chose(name: str) -> None:
    words = started(name, "ar")
    assert "127.0.0.1" in words
    assert "8123" in words


def test_llama_cpp_counts_drafts_without_the_anchor() -> None:
    words = started("llama.cpp", "dflash")
    assert value_of(words, "--spec-type") == "draft-dflash"
    assert value_of(words, "--spec-draft-n-max") == "15"
    assert value_of(words, "--model-draft") == "/cache/draft-bfloat16.gguf"
    assert value_of(started("llama.cpp", "ngram"), "--spec-ngram-simple-size-n") == "3"


def test_llama_cpp_in_float32_is_float32_throughout() -> None:
    words = started("llama.cpp", "dflash", dtype="float32")
    assert value_of(words, "--flash-attn") == "off"
    for flag in (
        "--cache-type-k",
        "--cache-type-v",
        "--cache-type-k-draft",
        "--cache-type-v-draft",
    ):
        assert value_of(words, flag) == "f32"


def test_llama_cpp_quantizes_the_target_to_blocks_of_8_or_4_bits() -> None:
    assert value_of(started("llama.cpp", "ar", quantization="int8"), "--weights") == "q8_0"
    assert value_of(started("llama.cpp", "ar", quantization="int4"), "--weights") == "q4_0"


def test_lmdeploys_block_counts_the_anchor_and_eagles_drafts_do_not() -> None:
    assert value_of(started("lmdeploy", "dflash"), "--speculative-dflash-block-size") == "16"
    assert value_of(started("lmdeploy", "eagle3"), "--speculative-num-draft-tokens") == "15"


def test_lmdeploy_has_neither_float32_nor_quantization() -> None:
    recipe = load_recipe("lmdeploy")
    assert refusal(recipe, "dflash", dtype="float32") is not None
    assert refusal(recipe, "dflash", dtype="bfloat16", quantization="int8") is not None


@pytest.mark.parametrize(
    ("method", "decoding_type"),
    [
        ("dflash", "DFlash"),
        ("eagle3", "Eagle3"),
        ("draft_model", "DraftTarget"),
        ("ngram", "NGram"),
    ],
)
def test_tensorrt_llms_settings_become_one_file(method: str, decoding_type: str) -> None:
    _, settings = config_file.split(started("tensorrt-llm", method))
    assert settings["kv_cache_config"] == {"enable_block_reuse": False}
    assert settings["speculative_config"]["decoding_type"] == decoding_type
    assert settings["speculative_config"]["max_draft_len"] == 15
    overlaps = "disable_overlap_scheduler" not in settings
    assert overlaps == (method in ("dflash", "eagle3"))


def test_tensorrt_llms_plain_decoding_can_be_matched_to_its_scheduler() -> None:
    words = started("tensorrt-llm", "ar", matched="ngram")
    assert json.loads(words[-1]) == {"disable_overlap_scheduler": True}


@pytest.mark.parametrize("key", ["denoise_steps", "tree", "options"])
def test_a_setting_that_no_flag_carries_is_refused(key: str) -> None:
    value: Any = {"denoise_steps": 2, "tree": {"top_k": 2}, "options": {"a": 1}}[key]
    arms = {"ar": {"method": "ar"}, "fast": {"method": "dflash", "draft": "lab", key: value}}
    spec = Spec.model_validate({"name": "x", "target": "lab", "arms": arms, "workloads": ["w"]})
    with pytest.raises(ConfigError, match=rf"arms\.fast\.{key}: llama\.cpp does not hand it"):
        openai.make(spec, load_recipe("llama.cpp"))


def test_a_block_size_is_carried_as_drafts() -> None:
    arms = {"ar": {"method": "ar"}, "fast": {"method": "dflash", "draft": "lab", "block_size": 8}}
    spec = Spec.model_validate({"name": "x", "target": "lab", "arms": arms, "workloads": ["w"]})
    assert openai.make(spec, load_recipe("llama.cpp")).name == "llama.cpp"
