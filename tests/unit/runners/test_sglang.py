"""What becomes of an arm before SGLang sees it, and of what SGLang says of itself and of a load."""

import json
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.plan import Cell, PlannedArm, make_plan
from dflash_bench.runners import environments
from dflash_bench.runners.base import Opening
from dflash_bench.runners.environments import Environment
from dflash_bench.runners.recipe import load_recipe
from dflash_bench.runners.sglang import SglangRunner, make
from dflash_bench.runners.sglang_facts import facts_of
from dflash_bench.spec import Spec
from tests.fakes.replayed import read

DRAFT = {"draft": "lab"}
CELL = Cell(workload="w", batch_size=4, context_length=None, temperature=0.0)
WARM = CELL.model_copy(update={"temperature": 1.0})


def spec(arm: dict[str, Any], **changes: Any) -> Spec:
    content = {
        "name": "t",
        "runner": "sglang",
        "target": "lab",
        "dtype": "bfloat16",
        "arms": {"ar": {"method": "ar"}, "it": arm},
        "workloads": ["sample-math"],
        "sweep": {"batch_size": [1, 4]},
    }
    return Spec.model_validate({**content, **changes})


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Say that the environment is there, as the variant that is asked for."""

    def say(variant: str) -> None:
        digest = load_recipe("sglang").install_digest(variant)
        found = Environment("sglang", variant, "0.5.23", "today", "sglang", digest, ())
        monkeypatch.setattr(environments, "required", lambda recipe: found)
        monkeypatch.setattr(environments, "environment_of", lambda recipe: found)

    return say


def started(runner: SglangRunner) -> SglangRunner:
    """Tell `runner` where the models are, as its start would."""
    runner._folders["target"] = Path("/m/target")
    runner._drafts = {(arm.method, "lab"): Path("/m/draft") for arm in runner.spec.arms.values()}
    return runner


def command(setup: dict[str, Any], name: str = "it", **changes: Any) -> str:
    runner = started(make(spec(setup, **changes)))
    arm = make_plan(runner.spec).arms[name]
    python, *words = runner.command(arm, Opening(batch_size=4, positions=300), 7).argv
    assert python == str(environments.required(runner.recipe).python)
    return " ".join(words)


COMMAND = (
    "-m sglang.launch_server --model-path /m/target --host 127.0.0.1 --port 7 --random-seed 0"
    " --max-running-requests 4 --disable-radix-cache --incremental-streaming-output --sampling-defaults openai"
    " --skip-server-warmup --enable-metrics"
)
CUDA = f"{COMMAND} --device cuda --cuda-graph-max-bs-decode 4 --dtype bfloat16"
CHAIN = "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
AT = "--speculative-draft-model-path /m/draft"


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ({"method": "dflash", **DRAFT, "block_size": 16}, f"DFLASH {AT} --speculative-num-draft-tokens 16"),
        ({"method": "dflash", **DRAFT}, f"DFLASH {AT}"),
        ({"method": "eagle3", **DRAFT, "block_size": 4}, f"EAGLE3 {AT} {CHAIN}"),
        ({"method": "eagle3", **DRAFT}, f"EAGLE3 {AT}"),
        (
            {"method": "eagle3", **DRAFT, "block_size": 8, "tree": {"top_k": 4, "depth": 5}},
            f"EAGLE3 {AT} --speculative-num-steps 5 --speculative-eagle-topk 4 --speculative-num-draft-tokens 8",
        ),
        (
            {"method": "eagle3", **DRAFT, "block_size": 4, "verify": "reject"},
            f"EAGLE3 {AT} {CHAIN} --speculative-use-rejection-sampling",
        ),
        ({"method": "draft_model", **DRAFT, "block_size": 4}, f"STANDALONE {AT} {CHAIN}"),
        ({"method": "mtp", "block_size": 4}, f"NEXTN {CHAIN}"),
        ({"method": "mtp", **DRAFT, "block_size": 4}, f"NEXTN {AT} {CHAIN}"),
        ({"method": "ngram", "block_size": 8}, "NGRAM --speculative-num-draft-tokens 8"),
        (
            {
                "method": "dflash",
                **DRAFT,
                "options": {"speculative_draft_window_size": 512, "speculative_use_block_verification": True},
                "flags": ["--attention-backend", "triton"],
            },
            f"DFLASH {AT} --attention-backend triton --speculative-draft-window-size 512"
            " --speculative-use-block-verification",
        ),
    ],
)  # fmt: skip
def test_every_method_is_these_flags(arm: dict[str, Any], words: str, installed: Any) -> None:
    installed("cuda")
    assert command(arm) == f"{CUDA} --speculative-algorithm {words}"


def test_plain_decoding_has_the_same_limits_also_where_it_is_matched(installed: Any) -> None:
    installed("cuda")
    drafted = {"method": "dflash", **DRAFT, "block_size": 16}
    assert command(drafted, "ar") == CUDA
    arms = {"ar": {"method": "ar"}, "same": {"method": "ar", "matched": "dflash"}, "it": drafted}
    assert command(drafted, "same", arms=arms) == CUDA


def test_on_a_cpu_the_cache_holds_what_the_most_requests_may_write_in_every_arm(
    installed: Any,
) -> None:
    installed("cpu")
    drafted = {"method": "dflash", **DRAFT, "block_size": 16}
    flags = "--device cpu --attention-backend torch_native --max-total-tokens 4096 --dtype bfloat16"
    assert command(drafted, "ar") == f"{COMMAND} {flags}"
    wide = {"batch_size": [64]}
    for arm in ("ar", "it"):
        words = command(drafted, arm, sweep=wide)
        assert f"--max-total-tokens {64 * (300 + 2 * 16)} " in words
        assert "--max-running-requests 64 " in words


LOSSY = {"speculative_accept_threshold_single": 0.5}
TREE = {"top_k": 2, "depth": 2}


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ({"method": "dflash"}, "draft: is missing"),
        ({"method": "dflash", **DRAFT, "verify_length": 4}, "verify_length: SGLang has no such"),
        ({"method": "dflash", **DRAFT, "noise": "gaussian"}, "noise: SGLang has no such"),
        ({"method": "ngram", "ngram_max": 4}, "ngram_max: SGLang has no such setting for ngram"),
        ({"method": "dflash", **DRAFT, "verify": "typical"}, "typical is not a rule of SGLang's"),
        ({"method": "dflash", **DRAFT, "options": LOSSY}, "accept_threshold_single: 0.5 is lossy"),
        ({"method": "dflash", **DRAFT, "flags": ["--speculative-accept-threshold-acc", "0.9"]}, "0.9 is lossy"),
        ({"method": "dflash", **DRAFT, "flags": ["--speculative-accept-threshold-acc=0.9"]}, "0.9 is lossy"),
        ({"method": "dflash", **DRAFT, "options": {"speculative_num_draft_tokens": 3}}, "is what block_size says"),
        ({"method": "eagle3", **DRAFT, "options": {"speculative_adaptive": True}}, "how many drafts were verified"),
        ({"method": "eagle3", **DRAFT, "options": {"page_size": 1}}, "SGLang's begin with speculative_"),
        ({"method": "eagle3", **DRAFT, "options": {"speculative_token_map": ["x"]}}, "cannot be a flag's value"),
        ({"method": "eagle3", **DRAFT, "tree": TREE}, "depth, top_k and a block_size together"),
        ({"method": "eagle3", **DRAFT, "tree": TREE, "block_size": 8}, "8 is above the 7 nodes"),
        ({"method": "eagle3", **DRAFT, "tree": {"top_k": 1, "depth": 4}, "block_size": 4}, "a chain of depth 4 has 5"),
    ],
)  # fmt: skip
def test_an_arm_that_sglang_must_not_be_given_is_refused_by_name(
    arm: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        make(spec(arm))


def test_a_block_wider_than_the_drafter_was_trained_for_is_refused(installed: Any) -> None:
    installed("cuda")
    runner = make(spec({"method": "dflash", **DRAFT, "block_size": 17}, device="cuda"))
    with pytest.raises(ConfigError, match="17 is above the block size 16"):
        runner.start()


def test_a_server_that_pretends_to_accept_is_refused() -> None:
    arm = {"method": "dflash", **DRAFT}
    with pytest.raises(ConfigError, match="pretend"):
        make(spec(arm, server={"env": {"SGLANG_SIMULATE_ACC_LEN": "4"}}))
    with pytest.raises(ConfigError, match=r"server.flags: .* 0.1 is lossy"):
        make(spec(arm, server={"flags": ["--speculative-accept-threshold-single", "0.1"]}))


def test_what_nobody_hands_to_a_server_that_runs_is_refused() -> None:
    url = {"base_url": "http://gpu:30000"}
    with pytest.raises(ConfigError, match=r"it\.tree: nobody hands it"):
        make(spec({"method": "eagle3", **url, "tree": TREE}))
    with pytest.raises(ConfigError, match=r"server\.flags: is for servers that are started"):
        make(spec({"method": "dflash"}, **url, server={"flags": ["--tp", "2"]}))


def reasons(arm: dict[str, Any], cell: Cell = CELL, **changes: Any) -> str | None:
    runner = make(spec(arm, **changes))
    return runner.refusal(
        PlannedArm(
            name="it",
            method=arm["method"],
            verify=arm.get("verify", "match"),
            base_url=arm.get("base_url"),
        ),
        cell,
    )


def test_what_sglang_cannot_do_is_said_before_anything_starts(installed: Any) -> None:
    dflash = {"method": "dflash", **DRAFT}
    installed("cpu")
    assert "DFLASH speculative decoding is not supported" in str(reasons(dflash))
    assert reasons({**dflash, "base_url": "http://gpu:30000"}) is None, "that server knows best"
    installed("cuda")
    assert reasons(dflash) is None
    assert "no method 'medusa'" in str(reasons({"method": "medusa", **DRAFT}))
    assert "no method 'suffix'" in str(reasons({"method": "suffix"}))
    int8 = CELL.model_copy(update={"target_quantization": "int8"})
    assert "no target_quantization 'int8'" in str(reasons(dflash, int8))
    penalized: dict[str, Any] = {"sampling": {"presence_penalty": 0.5}}
    assert "penalties do not count" in str(reasons(dflash, CELL, **penalized))
    ar = make(spec(dflash, **penalized))
    assert ar.refusal(PlannedArm(name="ar", method="ar"), CELL) is None


def test_dflash_samples_under_the_plans_label_and_not_under_a_rule_that_was_asked_for(
    installed: Any,
) -> None:
    installed("cuda")
    warm = {"sweep": {"temperature": [1.0]}}
    runner = make(spec({"method": "dflash", **DRAFT}, **warm))
    plan = make_plan(runner.spec, runner.refusal, runner.nesting, runner.couples_noise)
    assert (plan.arms["it"].verify, plan.unsupported) == ("reject", ())
    asked = {"method": "dflash", **DRAFT, "verify": "reject"}
    with pytest.raises(
        ConfigError, match=r"it\.verify: SGLang has no flag for 'reject' with dflash"
    ):
        make(spec(asked, **warm))
    assert make(spec(asked)).name == "sglang", "at temperature 0 all rules are one"
    assert make(spec({**asked, "method": "eagle3"}, **warm)).name == "sglang"


@pytest.mark.parametrize("sweep", [{}, {"block_size": [4, 8]}])
def test_the_plans_label_alone_is_no_flag(installed: Any, sweep: dict[str, Any]) -> None:
    installed("cuda")
    block = {} if sweep else {"block_size": 4}
    for verify in (None, "reject"):
        drafted = {"method": "eagle3", **DRAFT, "verify": verify, **block}
        runner = started(make(spec(drafted, sweep=sweep)))
        arms = make_plan(runner.spec, couples_noise=False).arms.values()
        for arm in (arm for arm in arms if arm.method != "ar"):
            words = runner.command(arm, Opening(batch_size=4, positions=300), 7).argv
            rejects = "--speculative-use-rejection-sampling" in words
            assert rejects == (verify == "reject")


def test_what_a_server_says_of_itself_becomes_facts() -> None:
    told = json.loads(read("dflash.server_info.json"))
    facts = facts_of(told)
    config = facts.pop("config")
    assert facts == {
        "max_requests": 4,
        "max_batched_tokens": 4096,
        "async_scheduling": True,
        "graph_mode": "disabled decode, disabled prefill",
        "kv_capacity_tokens": 4096,
        "prefix_cache": False,
        "spec_method": "DFLASH",
        "num_speculative_tokens": 15,
    }
    assert config["attention_backend"] == "torch_native"
    assert config["speculative_accept_threshold_single"] == 1.0
    assert not any("ngram" in key or "key" in key for key in config)
    plain = facts_of(json.loads(read("ar.server_info.json")))
    assert "spec_method" not in plain
    assert "num_speculative_tokens" not in plain
    assert plain["max_requests"] == facts["max_requests"], "both arms under the same limit"
    assert not any(key.startswith("speculative_") for key in plain["config"])
    assert facts_of("404 page not found") == {}
