"""Recipes of servers without Python of their own: the command that each method is started with."""

import json
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.plan import PlannedArm
from dflash_bench.runners import environments, openai
from dflash_bench.runners.convert import config_file
from dflash_bench.runners.launch import Value, arm_values, launch, refusal
from dflash_bench.runners.recipe import load_recipe
from dflash_bench.spec import Spec
from tests.unit.runners.recipes import SMALL, small

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


def spec(arm: dict[str, Any], **changes: Any) -> Spec:
    arms = {"ar": {"method": "ar"}, "fast": arm}
    content = {"name": "x", "target": "lab", "arms": arms, "workloads": ["w"]}
    return Spec.model_validate({**content, **changes})


DFLASH = {"method": "dflash", "draft": "lab", "block_size": 8}


@pytest.mark.parametrize("key", ["denoise_steps", "tree", "options"])
def test_a_setting_that_no_flag_carries_is_refused(key: str) -> None:
    value: Any = {"denoise_steps": 2, "tree": {"top_k": 2}, "options": {"a": 1}}[key]
    with pytest.raises(ConfigError, match=rf"arms\.fast\.{key}: llama\.cpp does not hand it"):
        openai.make(spec({**DFLASH, key: value}), load_recipe("llama.cpp"))


def test_a_block_size_is_carried_as_drafts() -> None:
    assert openai.make(spec(DFLASH), load_recipe("llama.cpp")).name == "llama.cpp"


@pytest.mark.parametrize(
    ("name", "arm", "key"),
    [
        ("llama.cpp", {"method": "dflash", "draft": "lab"}, "block_size"),
        ("llama.cpp", {"method": "dflash", "block_size": 8}, "draft"),
        ("llama.cpp", {"method": "eagle3", "block_size": 8}, "draft"),
        ("lmdeploy", {"method": "dflash", "block_size": 8}, "draft"),
        ("lmdeploy", {"method": "mtp"}, "block_size"),
        ("tensorrt-llm", {"method": "ngram"}, "block_size"),
        ("tensorrt-llm", {"method": "dflash", "block_size": 8}, "draft"),
    ],
)
def test_an_arm_without_a_value_that_its_server_needs_is_refused(
    name: str, arm: dict[str, Any], key: str
) -> None:
    with pytest.raises(ConfigError, match=rf"arms\.fast\.{key}: is missing; {name} starts no"):
        openai.make(spec(arm), load_recipe(name))


def test_a_swept_block_size_is_one() -> None:
    swept = {"method": "dflash", "draft": "lab"}
    for sizes in ([4], [4, 8]):
        made = openai.make(spec(swept, sweep={"block_size": sizes}), load_recipe("llama.cpp"))
        assert made.name == "llama.cpp"


def test_a_swept_block_size_that_no_flag_carries_is_refused(tmp_path: Path) -> None:
    start = {**SMALL["start"], "methods": {"ar": [], "dflash": ["--draft", "{draft}"]}}
    recipe = small(tmp_path, kind="openai", start=start)
    drafted = {"method": "dflash", "draft": "lab"}
    assert openai.make(spec(drafted), recipe).name == "small"
    with pytest.raises(ConfigError, match=r"arms\.fast\.block_size: .* does not hand it"):
        openai.make(spec(drafted, sweep={"block_size": [4, 8]}), recipe)


def test_a_lookup_without_a_length_leaves_it_to_the_server() -> None:
    arm = PlannedArm(name="arm", method="ngram", block_size=6, num_draft_tokens=5)
    values: dict[str, Value] = dict.fromkeys(
        ("python", "env", "cache", "port", "target", "batch_size", "positions", "threads"), 1
    )
    given = {**values, **arm_values(arm), "dtype": "float32"}
    words = launch(
        load_recipe("llama.cpp"), given, variant=None, method="ngram", dtype="float32"
    ).argv
    assert "--spec-ngram-simple-size-n" not in words
    assert value_of(list(words), "--spec-ngram-simple-size-m") == "5"


def test_a_block_wider_than_the_drafter_was_trained_for_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environments, "required", lambda recipe: None)
    monkeypatch.setattr(environments, "variant_of", lambda recipe: "cpu")
    made = openai.make(spec(DFLASH | {"block_size": 17}), load_recipe("llama.cpp"))
    with pytest.raises(ConfigError, match="17 is above the block size 16"):
        made.start()


def test_flags_for_servers_that_nobody_starts_are_refused() -> None:
    url = {"base_url": "http://127.0.0.1:1"}
    with pytest.raises(ConfigError, match=r"server\.flags: is for servers that are started"):
        openai.make(spec(DFLASH, server={"flags": ["-x"]}, **url))
    with pytest.raises(ConfigError, match=r"arms\.fast\.noise: nobody hands it"):
        openai.make(spec(DFLASH | {"noise": "mask"}, **url))
    assert openai.make(spec(DFLASH, **url)).name == "openai", "labels"
