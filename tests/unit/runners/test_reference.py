"""The reference runner on `markov`, whose answers and acceptances are known by hand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.errors import ConfigError, InfrastructureError
from dflash_bench.plan import PlannedArm
from dflash_bench.records.schema import Answer
from dflash_bench.runners.base import Request
from dflash_bench.runners.reference import ReferenceRunner, make
from dflash_bench.spec import Spec


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
    found = {answer.request: answer for answer in session.run(requests(runner, texts), batch, 0.0)}
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
    order: list[Answer] = list(runner.open(AR).run([long, short], 2, 0.0))
    assert [answer.request for answer in order] == ["short", "r0"]


def test_a_stop_string_ends_the_answer_and_is_kept(runner: ReferenceRunner) -> None:
    asked = requests(runner, ["abc"], stop=("cd",))
    for arm in (AR, DFLASH):
        (answer,) = runner.open(arm).run(asked, 1, 0.0)
        assert (answer.output_text, answer.finish_reason) == ("dabcd", "stop")


def test_the_manifest_gets_hashes_of_what_was_loaded(runner: ReferenceRunner) -> None:
    runner.open(DFLASH)
    models = runner.models()
    assert set(models) == {"target", "draft markov"}
    assert all("model.safetensors" in model["sha256"] for model in models.values())


def test_arms_of_one_checkpoint_share_its_weights(runner: ReferenceRunner) -> None:
    small = DFLASH.model_copy(update={"name": "dflash-b4", "block_size": 4})
    first, second = runner.open(DFLASH), runner.open(small)
    assert first._drafter._model is second._drafter._model  # type: ignore[attr-defined]
    assert (first._drafter.block_size, second._drafter.block_size) == (8, 4)  # type: ignore[attr-defined]


def test_a_block_larger_than_the_checkpoints_names_the_arm(runner: ReferenceRunner) -> None:
    large = DFLASH.model_copy(update={"name": "dflash-b9", "block_size": 9})
    with pytest.raises(ConfigError, match=r"arms\.dflash-b9: block_size 9 is outside 2\.\.8"):
        runner.open(large)


def test_a_drafter_of_another_target_is_refused(runner: ReferenceRunner) -> None:
    other = DFLASH.model_copy(update={"draft": "lab", "block_size": None})
    with pytest.raises(ConfigError, match=r"does not fit its target: hidden_size 128 expected"):
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
