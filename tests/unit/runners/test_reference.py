"""The reference runner on `markov`, whose answers and acceptances are known by hand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

from dflash_bench.errors import ConfigError, InfrastructureError
from dflash_bench.plan import PlannedArm
from dflash_bench.records.schema import Answer
from dflash_bench.runners.base import Load, Request
from dflash_bench.runners.reference import ReferenceRunner, make
from dflash_bench.spec import LOSSY_RULES, RULES, Spec


def spec(**changes: Any) -> Spec:
    content: dict[str, Any] = {
        "name": "x",
        "target": "markov",
        "arms": {"ar": {"method": "ar"}, "dflash": {"method": "dflash", "draft": "markov"}},
        "workloads": ["sample-math"],
    }
    return Spec.model_validate(content | changes)


AR = PlannedArm(name="ar", method="ar")
DFLASH = PlannedArm(
    name="dflash-b8", method="dflash", draft="markov", block_size=8, num_draft_tokens=7
)


@pytest.fixture(scope="module")
def runner() -> ReferenceRunner:
    runner = make(spec())
    runner.start()
    return runner


def requests(runner: ReferenceRunner, texts: Sequence[str], **changes: Any) -> list[Request]:
    return [
        Request(
            id=f"r{number}",
            prompt=tuple(runner.tokenizer.encode(text)),
            key=number,
            **({"max_new_tokens": 40} | changes),
        )
        for number, text in enumerate(texts)
    ]


def answers(runner: ReferenceRunner, arm: PlannedArm, texts: Sequence[str], batch: int) -> Any:
    session = runner.open(arm)
    found = {
        answer.request: answer for answer in session.run(requests(runner, texts), Load(batch, 0.0))
    }
    return [found[f"r{number}"] for number in range(len(texts))], session.totals()


def test_the_known_text_and_the_known_acceptance(runner: ReferenceRunner) -> None:
    (answer,), totals = answers(runner, DFLASH, ["abc"], batch=1)
    assert answer.output_text == "dabc" * 10
    assert answer.finish_reason == "length"
    # 39 tokens after the prefill's: 0, 0, 1 accepted, again and again; the last step is cut.
    assert answer.steps.accepted == (0, 0, 1) * 9 + (0, 0, 0)
    assert set(answer.steps.drafted) == {7}
    assert sum(answer.steps.committed) == 39
    assert totals.row_steps == len(answer.steps.accepted)


@pytest.mark.parametrize("batch", [1, 3, 4])
def test_dflash_and_ar_give_the_same_text_in_any_batch(runner: ReferenceRunner, batch: int) -> None:
    texts = ["abc", "d", "abcdab", "cd", "a"]
    plain, _ = answers(runner, AR, texts, 1)
    drafted, totals = answers(runner, DFLASH, texts, batch)
    assert [answer.output_ids for answer in drafted] == [answer.output_ids for answer in plain]
    shares = [answer.window for answer in drafted]
    seconds = sum(
        share.prefill_s
        + share.draft_prefill_s
        + share.draft_s
        + share.verify_s
        + share.commit_s
        + share.other_s
        for share in shares
    )
    assert seconds == pytest.approx(totals.window_wall_s, abs=1e-9)


def test_answers_come_as_their_requests_end(runner: ReferenceRunner) -> None:
    asked = requests(runner, ["a", "b"])
    long, short = asked[0], Request("short", asked[1].prompt, key=1, max_new_tokens=3)
    order: list[Answer] = list(runner.open(AR).run([long, short], Load(2, 0.0)))
    assert [answer.request for answer in order] == ["short", "r0"]


def test_a_stop_string_ends_the_answer_and_is_kept(runner: ReferenceRunner) -> None:
    asked = requests(runner, ["abc"], stop=("cd",))
    for arm in (AR, DFLASH):
        (answer,) = runner.open(arm).run(asked, Load(1, 0.0))
        assert (answer.output_text, answer.finish_reason) == ("dabcd", "stop")


def test_the_manifest_gets_hashes_of_what_was_loaded(runner: ReferenceRunner) -> None:
    runner.open(DFLASH)
    models = runner.models()
    assert set(models) == {"target", "dflash markov"}
    assert all("model.safetensors" in model["sha256"] for model in models.values())


def test_arms_of_one_checkpoint_share_its_weights(runner: ReferenceRunner) -> None:
    small = DFLASH.model_copy(update={"name": "dflash-b4", "block_size": 4})
    first = runner.open(DFLASH)
    weights = list(runner._loaded.values())
    second = runner.open(small)
    assert list(map(id, runner._loaded.values())) == list(map(id, weights))
    assert (first._drafter.block_size, second._drafter.block_size) == (8, 4)  # type: ignore[attr-defined]


def test_a_block_larger_than_the_checkpoints_names_the_arm(runner: ReferenceRunner) -> None:
    large = DFLASH.model_copy(update={"name": "dflash-b9", "block_size": 9})
    with pytest.raises(ConfigError, match=r"arms\.dflash-b9: block_size 9 is outside 2\.\.8"):
        runner.open(large)


def test_a_drafter_of_another_target_is_refused(runner: ReferenceRunner) -> None:
    other = DFLASH.model_copy(update={"draft": "lab", "block_size": None})
    with pytest.raises(ConfigError, match=r"does not fit its target: hidden_size 128 expected"):
        runner.open(other)


def test_a_drafter_of_no_known_name_names_the_arm(runner: ReferenceRunner) -> None:
    other = DFLASH.model_copy(update={"draft": "labb"})
    with pytest.raises(ConfigError, match=r"arms\.dflash-b8\.draft: There is no dflash model"):
        runner.open(other)


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"target": "labb"}, ConfigError, "no target model named 'labb'"),
        ({"target": "/nowhere/at/all"}, ConfigError, "'/nowhere/at/all' is not a folder"),
        ({"device": "gpu"}, ConfigError, "device: 'gpu' is not known"),
    ],
)
def test_what_cannot_be_started_is_refused_by_name(
    changes: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        make(spec(**changes)).start()


def test_a_hub_model_without_a_network_is_an_infrastructure_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(InfrastructureError, match="There is no folder nobody/nothing"):
        make(spec(target="nobody/nothing")).start()


def test_a_visit_tells_the_block_that_was_settled_and_where_its_time_went(
    runner: ReferenceRunner,
) -> None:
    open_ended = DFLASH.model_copy(update={"name": "d", "block_size": None})
    found, totals = answers(runner, open_ended, ["abc", "d", "abcdab"], batch=2)
    assert totals.block_size == 8
    phases = totals.window_phases.model_dump()
    assert sum(told for told in phases.values() if told) == pytest.approx(
        totals.window_wall_s, abs=1e-9
    )
    assert phases.pop("decode_s") is None  # split, so not told as a whole
    for phase, seconds in phases.items():
        shares = sum(getattr(answer.window, phase) for answer in found)
        assert shares == pytest.approx(seconds, abs=1e-9)
    assert answers(runner, AR, ["abc"], batch=1)[1].block_size is None


def test_a_step_tells_what_was_scheduled_and_how_many_slots_were_busy(
    runner: ReferenceRunner,
) -> None:
    found, totals = answers(runner, DFLASH, ["abc", "d", "abcdab"], batch=2)
    for answer in found:
        assert set(answer.steps.scheduled) == {8}
        assert len(answer.steps.busy) == len(answer.steps.accepted)
        assert set(answer.steps.busy) <= {1, 2}
    # Each pass is told by every request in it.
    passes = sum(1 / busy for answer in found for busy in answer.steps.busy)
    assert passes == pytest.approx(totals.steps)


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ({"method": "dflsh"}, r"arms\.d\.method: the runner reference has no method 'dflsh'"),
        ({"method": "dflash"}, r"arms\.d\.draft: is missing; method 'dflash' needs a drafter"),
        ({"method": "ngram", "draft": "x"}, r"arms\.d\.draft: method 'ngram' has no such"),
        ({"method": "ngram", "verify": "reject"}, r"arms\.d\.verify: 'reject' needs drafts"),
        ({"method": "dflash", "draft": "x", "tree": {}}, r"arms\.d\.tree: method 'dflash' drafts"),
    ],
)
def test_an_arm_that_its_method_cannot_be_is_refused_before_anything_is_loaded(
    arm: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        make(spec(arms={"ar": {"method": "ar"}, "d": arm}))


def test_an_arms_rule_overrides_the_samplings() -> None:
    arms = {"ar": {"method": "ar"}, "n": {"method": "ngram"}}
    with pytest.raises(ConfigError, match=r"arms\.n\.verify"):
        make(spec(arms=arms, sampling={"verify": "reject"}))
    arms["n"]["verify"] = "match"
    assert make(spec(arms=arms, sampling={"verify": "reject"})).name == "reference"


def test_a_config_and_the_engine_have_the_same_rules() -> None:
    from dflash_bench.engine import verify

    assert get_args(verify.Rule) == RULES
    assert verify.LOSSY_RULES == LOSSY_RULES


def test_the_sampling_reaches_ar_and_drafters_alike(runner: ReferenceRunner) -> None:
    asked = {"top_k": 2, "top_p": 0.9, "repetition_penalty": 1.3, "presence_penalty": 0.5}
    other = make(spec(sampling=asked | {"frequency_penalty": 0.1, "seed": 3}))
    other.start()
    texts = [
        next(iter(other.open(arm).run(requests(other, ["abc"]), Load(1, 1.0)))).output_text
        for arm in (AR, DFLASH)
    ]
    assert texts[0] == texts[1]
    assert texts[0] != "dabc" * 10
