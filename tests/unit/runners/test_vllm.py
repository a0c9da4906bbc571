"""What becomes of an arm before vLLM sees it, and of what vLLM says of itself."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.plan import Cell, PlannedArm
from dflash_bench.runners import environments
from dflash_bench.runners.base import Opening
from dflash_bench.runners.model_config import block_size_of
from dflash_bench.runners.recipe import load_recipe
from dflash_bench.runners.vllm import make
from dflash_bench.runners.vllm_drafting import speculative_config
from dflash_bench.runners.vllm_facts import facts_of
from dflash_bench.spec import Spec

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings" / "vllm"


def spec(arm: dict[str, Any], **changes: Any) -> Spec:
    return Spec.model_validate(
        {
            "name": "t",
            "runner": "vllm",
            "target": "lab",
            "arms": {"ar": {"method": "ar"}, "it": arm},
            "workloads": ["sample-math"],
            **changes,
        }
    )


def planned(method: str, **settings: Any) -> PlannedArm:
    return PlannedArm(name="it", method=method, settings=settings)


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ({"method": "dflash", "draft": "lab", "options": {"rejection_sample_method": "fly"}}, "fly is lossy"),
        ({"method": "dflash", "draft": "lab", "options": {"rejection_sample_method": "synthetic"}}, "lossy"),
        ({"method": "dflash", "draft": "lab", "options": {"num_speculative_tokens": 3}}, "block_size says"),
        ({"method": "dflash", "draft": "lab", "verify_length": 4}, "verify_length: vLLM has no such setting"),
        ({"method": "dflash"}, "draft: is missing"),
        ({"method": "eagle3", "draft": "lab"}, "block_size: is missing"),
        ({"method": "ngram"}, "block_size: is missing"),
        ({"method": "dflash", "draft": "lab", "options": {"rejection_sample_method": ["fly"]}}, "is not a word"),
        ({"method": "dflash", "draft": "lab", "flags": ["--speculative-config", "{}"]}, "it.flags: --spec"),
        ({"method": "dflash", "draft": "lab", "flags": ["--speculative_config={}"]}, "past the arm's own keys"),
        ({"method": "dflash", "draft": "lab", "flags": ["--speculative-config.method=ngram"]}, "past the arm"),
        ({"method": "dflash", "draft": "lab", "flags": ["-sc", "{}"]}, "it.flags: -sc"),
        ({"method": "dflash", "draft": "lab", "flags": ["--spec-tokens", "3"]}, "it.flags: --spec-tokens"),
    ],
)  # fmt: skip
def test_an_arm_that_vllm_must_not_be_given_is_refused_by_name(
    arm: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        make(spec(arm))


def test_a_command_that_drafts_past_the_arms_is_refused_of_all_servers_too() -> None:
    for arm in ({"method": "ngram", "block_size": 4}, {"method": "ar"}):
        with pytest.raises(ConfigError, match=r"server\.flags: -sc=\{\} says how an arm drafts"):
            make(spec(arm, server={"flags": ["-sc={}"]}))
    allowed = {"flags": ["--specialize-active-lora", "--seed", "1"]}
    assert make(spec({"method": "ar"}, server=allowed)).name == "vllm"


URL = "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("arm", "changes", "words"),
    [
        ({"tree": {"top_k": 2}}, {}, r"it\.tree: nobody hands it"),
        ({"noise": "mask"}, {}, r"it\.noise: nobody hands it"),
        ({"ngram_max": 4, "method": "ngram"}, {}, r"it\.ngram_max: nobody hands it"),
        ({}, {"server": {"flags": ["--seed", "1"]}}, r"server\.flags: is for servers"),
        ({}, {"server": {"env": {"A": "1"}}}, r"server\.env: is for servers"),
    ],
)
def test_what_nobody_hands_to_a_server_that_runs_is_refused(
    arm: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        make(spec({"method": "dflash", **arm}, base_url=URL, **changes))


def test_flags_of_servers_that_are_started_stand_beside_an_address_of_one_arm() -> None:
    mixed = {"method": "dflash", "base_url": URL}
    assert make(spec(mixed, server={"flags": ["--seed", "1"]})).base_url(
        PlannedArm(name="it", method="dflash", base_url=URL)
    )


def test_options_that_keep_the_law_pass_through() -> None:
    runner = make(
        spec(
            {
                "method": "dflash",
                "draft": "lab",
                "block_size": 8,
                "options": {"rejection_sample_method": "block", "draft_sample_method": "greedy"},
            }
        )
    )
    assert runner.name == "vllm"


def test_a_block_wider_than_the_drafter_was_trained_for_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environments, "required", lambda recipe: None)
    monkeypatch.setattr(environments, "variant_of", lambda recipe: "cpu")
    runner = make(spec({"method": "dflash", "draft": "lab", "block_size": 17}))
    with pytest.raises(ConfigError, match="17 is above the block size 16"):
        runner.start()


def test_the_json_has_the_users_numbers_and_vllms_names(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"block_size": 16}')
    arm = PlannedArm(name="it", method="dflash", draft="x", block_size=8, num_draft_tokens=7)
    assert speculative_config(arm, tmp_path) == {
        "method": "dflash",
        "model": str(tmp_path),
        "num_speculative_tokens": 7,
    }
    assert speculative_config(planned("dflash"), tmp_path)["num_speculative_tokens"] == 15
    looked_up = planned(
        "ngram", ngram_min=2, ngram_max=4, options={"disable_padded_drafter_batch": True}
    )
    assert speculative_config(looked_up, None) == {
        "method": "ngram",
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 4,
        "disable_padded_drafter_batch": True,
    }  # fmt: skip


def test_a_suffix_tree_starts_without_memories_unless_the_user_wants_them() -> None:
    key = "suffix_decoding_max_cached_requests"
    assert speculative_config(planned("suffix"), None)[key] == 0
    assert speculative_config(planned("suffix", options={key: 50}), None)[key] == 50


def test_the_block_size_is_read_where_checkpoints_have_it(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"dflash_config": {"block_size": 8}, "block_size": 16}')
    assert block_size_of(tmp_path) == 8
    config.write_text("{}")
    assert block_size_of(tmp_path) is None
    with pytest.raises(ConfigError, match="does not tell it"):
        speculative_config(planned("dflash"), tmp_path)


def test_a_folder_whose_name_overrules_the_method_is_shown_through_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The test runner's own folders are named after this test.
    with tempfile.TemporaryDirectory(prefix="plain-", dir="/tmp") as place:
        monkeypatch.setattr("tempfile.tempdir", place)
        _shown_through_a_link(tmp_path)


def _shown_through_a_link(tmp_path: Path) -> None:
    folder = tmp_path / "my-dflash-things"
    folder.mkdir()
    runner = make(spec({"method": "medusa", "draft": "lab", "block_size": 5}))
    runner._drafts["medusa", "lab"] = folder
    arm = PlannedArm(name="it", method="medusa", draft="lab", block_size=5, num_draft_tokens=4)
    runner._folders["target"] = folder

    def shown() -> Path:
        return Path(json.loads(str(runner.values(arm, Opening())["speculative_config"]))["model"])

    link = shown()
    assert "dflash" not in str(link)
    assert link.resolve() == folder
    assert shown() == link
    assert "target" not in runner.values(arm, Opening())
    its_own = PlannedArm(name="it", method="mtp", block_size=2, num_draft_tokens=1)
    assert runner.values(its_own, Opening())["target"] == link  # the same folder, the same link
    runner.stop()
    assert not link.exists()
    assert folder.is_dir()


def test_all_arms_get_one_limit_with_room_to_draft() -> None:
    runner = make(spec({"method": "dflash", "draft": "lab"}, sweep={"block_size": [8, 16]}))
    runner._folders["target"] = Path("nowhere")
    opening = Opening(positions=100)
    for arm in (planned("ar"), PlannedArm(name="it", method="ar")):
        assert runner.values(arm, opening)["max_model_len"] == 132
    assert runner.values(planned("ar"), Opening())["max_model_len"] is None


def test_sampling_under_speculation_is_refused_where_its_law_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = make(spec({"method": "dflash", "draft": "lab", "block_size": 8}))
    hot, cold = (_cell(t) for t in (1.0, 0.0))
    arm = PlannedArm(name="it", method="dflash", draft="lab", block_size=8, num_draft_tokens=7)
    _installed(monkeypatch, "cpu")
    assert "wrong law" in str(runner.refusal(arm, hot))
    assert runner.refusal(arm, cold) is None
    assert runner.refusal(planned("ar"), hot) is None
    _installed(monkeypatch, "cpu", "0.34.0")
    assert runner.refusal(arm, hot) is None, "measured of 0.32.0 alone"
    assert "dropped" in str(runner.refusal(planned("medusa"), cold)), "whatever the variant"
    _installed(monkeypatch, "cuda", "0.33.0")
    assert runner.refusal(arm, hot) is None
    assert "dropped" in str(runner.refusal(planned("medusa"), cold))
    _installed(monkeypatch, "cuda", "0.32.1")
    assert runner.refusal(planned("medusa"), cold) is None


def test_facts_come_from_what_the_server_says() -> None:
    told = json.loads((RECORDINGS / "dflash-server-info.json").read_text())
    facts = facts_of(told)
    assert facts["max_requests"] == 128
    assert facts["max_batched_tokens"] == 2048
    assert facts["async_scheduling"] is False
    assert facts["graph_mode"] == "NONE"
    assert facts["kv_capacity_tokens"] == 209664
    assert facts["prefix_cache"] is False
    assert (facts["spec_method"], facts["num_speculative_tokens"]) == ("dflash", 15)
    assert facts["config"]["model"]["dtype"] == "torch.float32"
    plain = facts_of(json.loads((RECORDINGS / "ar-server-info.json").read_text()))
    assert "spec_method" not in plain
    assert {key: plain[key] for key in ("max_requests", "max_batched_tokens", "graph_mode")} == {
        key: facts[key] for key in ("max_requests", "max_batched_tokens", "graph_mode")
    }
    assert facts_of("SpeculativeConfig(...)") == {}


def test_a_pair_of_graph_modes_is_named() -> None:
    told = {"vllm_config": {"compilation_config": {"cudagraph_mode": [2, 1]}}}
    assert facts_of(told)["graph_mode"] == "FULL decoding, PIECEWISE mixed"


def test_the_recipe_gives_every_method_its_flags() -> None:
    recipe = load_recipe("vllm")
    assert recipe.start is not None
    assert set(recipe.start.methods) == set(recipe.methods)
    for method, words in recipe.start.methods.items():
        assert ("--speculative-config" in words) == (method != "ar")


def _installed(monkeypatch: pytest.MonkeyPatch, variant: str, version: str = "0.32.0") -> None:
    found = environments.Environment("vllm", variant, version, "", "vllm", "", ())
    monkeypatch.setattr(environments, "environment_of", lambda recipe: found)


def _cell(temperature: float) -> Cell:
    return Cell(workload="sample-math", batch_size=1, context_length=None, temperature=temperature)
