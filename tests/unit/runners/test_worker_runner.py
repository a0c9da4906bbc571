"""Runners of libraries: what they refuse before anything runs, and a session on a worker that is a fake."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.errors import ConfigError, InfrastructureError
from dflash_bench.plan import Cell, PlannedArm
from dflash_bench.runners import environments, mlx, transformers
from dflash_bench.runners.base import Load, Opening, Request
from dflash_bench.runners.model_config import check_block, check_drafter, eos_ids, max_positions
from dflash_bench.runners.recipe import Recipe
from dflash_bench.runners.worker.runner import WorkerRunner
from dflash_bench.runners.workers import serve
from dflash_bench.spec import Spec

CELL = Cell(workload="x", batch_size=1, context_length=None, temperature=0.0)
AR = PlannedArm(name="ar", method="ar")
DFLASH = PlannedArm(name="d", method="dflash", draft="lab", verify="match")


def spec(arm: dict[str, Any] | None = None, **changes: Any) -> Spec:
    arms = {"ar": {"method": "ar"}, "d": arm or {"method": "dflash", "draft": "lab"}}
    content = {"name": "x", "target": "markov", "arms": arms, "workloads": ["sample-math"]}
    return Spec.model_validate({**content, **changes})


class FakeRunner(WorkerRunner):
    """The fake backend, under this Python."""

    library = "fake"

    def interpreter(self) -> tuple[Path, Path | None]:
        return Path(sys.executable), None


def fake(arm: dict[str, Any] | None = None, **changes: Any) -> FakeRunner:
    backend = Path(__file__).with_name("fake_backend.py")
    recipe = {
        "name": "fake",
        "title": "a fake",
        "kind": "worker",
        "targets": "none",
        "methods": {"ar": "live", "dflash": "live"},
        "start": {
            "command": ["{python}", str(serve.__file__), str(backend)],
            "env": {"OMP_NUM_THREADS": "{threads}"},
            "methods": {"ar": [], "dflash": []},
        },
    }
    arm = arm or {"method": "dflash", "draft": "markov", "block_size": 5}
    return FakeRunner(spec(arm, **changes), Recipe.model_validate(recipe))


@pytest.fixture(scope="module")
def started() -> FakeRunner:
    runner = fake()
    runner.start()
    return runner


def requests(runner: FakeRunner, *texts: str, **changes: Any) -> list[Request]:
    return [
        Request(text, tuple(runner.tokenizer.encode(text)), key, 16, **changes)
        for key, text in enumerate(texts)
    ]


def planned(**options: Any) -> PlannedArm:
    settings = {"options": options} if options else {}
    return PlannedArm(
        name="d", method="dflash", draft="markov", block_size=5, verify="match", settings=settings
    )


def test_a_session_answers_and_sums_up(started: FakeRunner, tmp_path: Path) -> None:
    session = started.open(planned(), Opening(log=tmp_path / "a.log"))
    answers = list(session.run(requests(started, "abcdabcda", "ab"), Load(1)))
    totals = session.totals()
    session.close()
    assert [len(answer.output_ids or ()) for answer in answers] == [9, 2]
    assert answers[0].output_text == "adcbadcba"
    assert totals.window_wall_s == pytest.approx(0.8 + 0.6)
    assert totals.row_steps == 3 + 1
    assert totals.block_size == 5
    assert totals.peak_memory_bytes == 1009
    assert totals.acceptance is not None
    assert totals.acceptance.drafted == 16
    told = totals.backend
    assert (told["version"], told["spec_method"], told["num_speculative_tokens"]) == (
        "1.0",
        "dflash",
        4,
    )
    assert told["config"]["threads"] == "1", "the recipe's variable, filled"
    assert told["log"] == "a.log"


def test_the_manifest_knows_what_is_installed(started: FakeRunner) -> None:
    assert started.versions == {"fake": "1.0", "absent": None}
    assert started.facts()["versions"]["fake"] == "1.0"
    assert set(started.models()) == {"target", "dflash markov"}
    assert "model.safetensors" in started.models()["target"]["sha256"]
    assert started.max_positions == 1024


def test_a_failed_request_is_an_answer_with_an_error(started: FakeRunner, tmp_path: Path) -> None:
    session = started.open(planned(misbehave="raise"), Opening(log=tmp_path / "a.log"))
    answers = list(session.run(requests(started, "abc"), Load(1)))
    totals = session.totals()
    session.close()
    assert [answer.error for answer in answers] == ["ValueError: no such token"]
    assert totals.window_wall_s is None


def test_a_request_without_a_token_is_an_answer_with_an_error(
    started: FakeRunner, tmp_path: Path
) -> None:
    session = started.open(planned(misbehave="mute"), Opening(log=tmp_path / "a.log"))
    answers = list(session.run(requests(started, "abc"), Load(1)))
    totals = session.totals()
    session.close()
    assert [answer.error for answer in answers] == ["the backend generated no token"]
    assert totals.window_wall_s is None


def test_a_dead_worker_ends_the_run(started: FakeRunner, tmp_path: Path) -> None:
    session = started.open(planned(misbehave="die"), Opening(log=tmp_path / "a.log"))
    with pytest.raises(InfrastructureError, match="exit code 3"):
        list(session.run(requests(started, "abc"), Load(1)))
    session.close()


def test_a_refused_arm_is_named(started: FakeRunner, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^arms\.d: this cannot be done here"):
        started.open(planned(refuse=1), Opening(log=tmp_path / "a.log"))


def test_a_stop_string_ends_the_answer(started: FakeRunner, tmp_path: Path) -> None:
    session = started.open(planned(), Opening(log=tmp_path / "a.log"))
    asked = requests(started, "abcdabcda", stop=("cb",))
    answer = next(iter(session.run(asked, Load(1))))
    session.close()
    assert answer.output_text == "adcb"
    assert answer.finish_reason == "stop"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"batch_size": 2}, "one request at a time"),
        ({"request_rate": 2.0}, "at no request_rate"),
    ],
)
def test_what_a_cell_asks_in_vain(changes: dict[str, Any], reason: str) -> None:
    runner = mlx.make(spec())
    assert runner.refusal(DFLASH, CELL) is None
    assert reason in (runner.refusal(DFLASH, CELL.model_copy(update=changes)) or "")


def test_methods_weights_and_rules_that_a_library_has_not() -> None:
    runner = mlx.make(spec())
    medusa = PlannedArm(name="m", method="medusa", draft="lab")
    assert "no method 'medusa'" in (runner.refusal(medusa, CELL) or "")
    assert runner.refusal(AR, CELL.model_copy(update={"target_quantization": "int4"})) is None
    ngram = PlannedArm(name="n", method="ngram")
    assert "no method 'ngram'" in (runner.refusal(ngram, CELL) or "")
    assert transformers.make(spec()).refusal(ngram, CELL) is None
    typical = DFLASH.model_copy(update={"verify": "typical"})
    assert runner.refusal(typical, CELL) is None, "greedily every rule is the same"
    sampled = CELL.model_copy(update={"temperature": 1.0})
    assert "no rule 'typical'" in (runner.refusal(typical, sampled) or "")


@pytest.mark.parametrize(
    ("make", "arm", "changes", "message"),
    [
        (mlx.make, None, {"device": "cuda"}, "device: 'cuda' is not a device of MLX"),
        (mlx.make, None, {"sampling": {"presence_penalty": 1.0}}, "sampling.presence_penalty"),
        (mlx.make, {"method": "dflash"}, {}, "arms.d.draft: is missing"),
        (mlx.make, None, {"server": {"flags": ["--x"]}}, "server.flags: runner mlx starts no server"),
        (mlx.make, {"method": "dflash", "draft": "lab", "denoise_steps": 2}, {}, "arms.d.denoise_steps"),
        (mlx.make, {"method": "dflash", "draft": "lab", "options": {"x": 1}}, {}, "arms.d.options.x"),
        (mlx.make, {"method": "ar", "matched": "dflash"}, {}, "arms.d.matched: there is no dflash arm"),
        (mlx.make, {"method": "ar", "base_url": "http://a"}, {}, "arms.d.base_url"),
        (
            transformers.make,
            {"method": "dflash", "draft": "lab", "options": {"implementation": "mine"}},
            {},
            "there is no 'mine'",
        ),
        (
            transformers.make,
            {"method": "ngram", "options": {"implementation": "upstream"}},
            {},
            "authors' package does ngram",
        ),
        (transformers.make, {"method": "dflash", "draft": "lab", "ngram_max": 2}, {}, "arms.d.ngram_max"),
        (transformers.make, None, {"device": "metal"}, "device: 'metal' is not a device"),
        (
            transformers.make,
            {"method": "draft_model", "draft": "lab", "options": {"num_assistant_tokens": 4}},
            {},
            "arms.d.options.num_assistant_tokens: is what the arm's block_size says",
        ),
        (
            transformers.make,
            {"method": "ngram", "options": {"temperature": 0.5}},
            {},
            "arms.d.options.temperature: is what `sampling` says",
        ),
        (
            transformers.make,
            {"method": "ar", "options": {"eos_token_id": 1}},
            {},
            "arms.d.options.eos_token_id: is what the target's",
        ),
        (
            transformers.make,
            {"method": "dflash", "draft": "lab", "options": {"prefill_chunk_size": 8}},
            {},
            "arms.d.options.prefill_chunk_size: is not an option of this loop",
        ),
        (
            transformers.make,
            {"method": "ar", "matched": "dflash", "options": {"prefill_chunk_size": 8}},
            {},
            "arms.d.options.prefill_chunk_size: is not an option of this loop",
        ),
    ],
)  # fmt: skip
def test_what_a_spec_asks_in_vain(
    make: Any, arm: dict[str, Any] | None, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        make(spec(arm, **changes))
    assert message in caught.value.message
    assert caught.value.remedy


def test_a_drafter_that_starts_from_something_else_is_refused() -> None:
    from dflash_bench.lab.catalogue import MODELS

    check_drafter("d", MODELS / "dflash")
    with pytest.raises(ConfigError, match=r"^arms\.d\.draft: .*dflash_config\.noise"):
        check_drafter("d", MODELS / "gaussian")


@pytest.mark.parametrize(
    ("generation", "model", "expected"),
    [({"eos_token_id": [1, 2]}, 3, {1, 2}), ({}, 3, {3}), (None, None, set())],
)
def test_what_ends_a_text(
    tmp_path: Path, generation: Any, model: int | None, expected: set[int]
) -> None:
    if generation is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": model}))
    assert eos_ids(tmp_path) == expected


def test_a_model_of_more_than_text_has_its_own_in_text_config(tmp_path: Path) -> None:
    text = {"eos_token_id": [7], "max_position_embeddings": 64}
    (tmp_path / "config.json").write_text(json.dumps({"text_config": text}))
    assert eos_ids(tmp_path) == {7}
    assert max_positions(tmp_path) == 64


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "config.json is not valid JSON"),
        ("[1]", r"config.json holds \[1\], not an object"),
        ('{"architectures": ["DFlashDraftModel"], "dflash_config": null}', "dflash_config null"),
        ('{"architectures": ["DFlashDraftModel"], "dflash_config": [1]}', r"dflash_config \[1\]"),
        ('{"architectures": ["Qwen3ForCausalLM"]}', r'architectures \["Qwen3ForCausalLM"\]'),
        ("{}", "architectures null"),
    ],
)
def test_a_drafter_whose_config_is_wrong_is_named(
    tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ConfigError, match=message) as caught:
        check_drafter("d", tmp_path)
    assert str(tmp_path / "config.json") in caught.value.message


@pytest.mark.parametrize(
    ("config", "trained"),
    [
        ({"block_size": 8}, 8),
        ({"block_size": 16, "dflash_config": {"block_size": 8}}, 8),
        ({"block_size": 7, "sample_from_anchor": True}, 8),
    ],
)
def test_a_block_above_the_trained_one_is_refused(
    tmp_path: Path, config: dict[str, Any], trained: int
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    check_block("d", trained, tmp_path)
    check_block("d", None, tmp_path)
    with pytest.raises(ConfigError, match=rf"^arms\.d\.block_size: 9 is above .* {trained} of"):
        check_block("d", 9, tmp_path)


@pytest.mark.parametrize(
    ("arm", "changes"),
    [({"block_size": 9}, {}), ({}, {"sweep": {"block_size": [4, 9]}})],
)
def test_a_runner_refuses_a_block_that_its_drafter_never_saw(
    arm: dict[str, Any], changes: dict[str, Any]
) -> None:
    runner = fake({"method": "dflash", "draft": "markov", **arm}, **changes)
    with pytest.raises(ConfigError, match=r"^arms\.d\.block_size: 9 is above the block size 8"):
        runner.start()


def test_the_tokenizer_needs_transformers_beside_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dflash_bench.runners.folders.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="need transformers beside dflash-bench") as caught:
        fake().start()
    assert "pip install" in caught.value.remedy


@pytest.mark.parametrize(("device", "variant"), [("cuda", "cpu"), ("cpu", "cuda")])
def test_a_device_that_the_environment_is_not_for_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, device: str, variant: str
) -> None:
    runner = transformers.make(spec(device=device))
    monkeypatch.setattr(runner, "interpreter", lambda: (Path(sys.executable), tmp_path))
    monkeypatch.setattr(environments, "variant_of", lambda recipe: variant)
    with pytest.raises(ConfigError, match=f"{device}.*{variant}") as caught:
        runner.start()
    assert "dflash-bench env create" in caught.value.remedy


def test_mlx_on_apples_gpu_wants_that_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runner = mlx.make(spec())
    monkeypatch.setattr(runner, "interpreter", lambda: (Path(sys.executable), tmp_path))
    monkeypatch.setattr(environments, "variant_of", lambda recipe: "metal")
    with pytest.raises(ConfigError, match="metal") as caught:
        runner.start()
    assert "device: metal" in caught.value.remedy


def test_the_authors_loop_needs_their_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DFLASH_BENCH_HOME", str(tmp_path))
    if find_spec("dflash"):
        pytest.skip("their package is installed beside us")
    arm = {"method": "dflash", "draft": "markov", "options": {"implementation": "upstream"}}
    runner = transformers.make(spec(arm))
    assert runner.interpreter() == (Path(sys.executable), None)
    with pytest.raises(ConfigError, match=r"arms\.d: needs the authors' package") as caught:
        runner.start()
    assert "dflash-bench env create transformers" in caught.value.remedy
