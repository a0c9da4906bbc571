"""On the shipped models: no method changes a token, in any batch, greedy or sampled; greedy AR is Hugging Face's."""

from dataclasses import replace
from functools import cache
from itertools import cycle, islice
from typing import Any

import pytest
import torch

from dflash_bench.engine.pretrained import load_pretrained
from dflash_bench.plan import PlannedArm
from dflash_bench.runners.base import Load, Request
from dflash_bench.runners.reference import ReferenceRunner, make
from dflash_bench.spec import Spec
from dflash_bench.workloads.load import load_items
from dflash_bench.workloads.shape import render_prompts
from dflash_bench.workloads.workload import load_workload

NEW_TOKENS = 32
AR = PlannedArm(name="ar", method="ar")


def arm(name: str, method: str, draft: str | None = "lab", **fields: Any) -> PlannedArm:
    return PlannedArm(name=name, method=method, draft=draft, verify="match", **fields)


ARMS = (
    arm("dflash-b4", "dflash", block_size=4),
    arm("dflash-b16", "dflash", block_size=16),
    arm("dflash-verify6", "dflash", block_size=16, settings={"verify_length": 6}),
    arm("dflash-steps3", "dflash", block_size=8, settings={"denoise_steps": 3}),
    arm(
        "gaussian",
        "dflash",
        "lab-gaussian",
        settings={"noise": "gaussian", "denoise_steps": 4, "noise_schedule": "cosine"},
    ),
    arm("eagle3", "eagle3", block_size=6),
    arm("eagle3-tree", "eagle3", block_size=24, settings={"tree": {"top_k": 4, "depth": 5}}),
    arm("medusa", "medusa", block_size=5),
    arm("medusa-tree", "medusa", block_size=24, settings={"tree": {"top_k": 4, "depth": 4}}),
    arm("draft_model", "draft_model", block_size=6),
    arm("ngram", "ngram", None, block_size=8),
)


@cache
def runner() -> ReferenceRunner:
    content = {
        "name": "x",
        "target": "lab",
        "arms": {"ar": {"method": "ar"}, "dflash": {"method": "dflash", "draft": "lab"}},
        "workloads": ["sample-math"],
    }
    made = make(Spec.model_validate(content))
    made.start()
    return made


@cache
def requests() -> tuple[Request, ...]:
    """Ten prompts of three kinds and of different lengths: more than the largest batch has slots."""
    items = [
        item
        for name in ("sample-math", "sample-code", "sample-chat")
        for item in load_items(load_workload(name), 4)
    ]
    prompts = render_prompts(items[:10], runner().tokenizer)
    return tuple(
        Request(prompt.id, prompt.ids, key=number, max_new_tokens=NEW_TOKENS)
        for number, prompt in enumerate(prompts)
    )


def texts(arm: PlannedArm, batch: int, temperature: float) -> dict[str, tuple[int, ...] | None]:
    session = runner().open(arm)
    return {
        answer.request: answer.output_ids
        for answer in session.run(requests(), Load(batch, temperature))
    }


@cache
def plain(temperature: float) -> dict[str, tuple[int, ...] | None]:
    return texts(AR, 1, temperature)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("batch", [1, 3, 8])
@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)
def test_every_methods_text_is_ars(arm: PlannedArm, batch: int, temperature: float) -> None:
    assert texts(arm, batch, temperature) == plain(temperature)


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)
def test_acceptance_does_not_depend_on_the_batch(arm: PlannedArm) -> None:
    """Step by step: a row never waits for another, and never loses by its company."""
    alone, together = (
        {answer.request: answer.steps for answer in runner().open(arm).run(requests(), Load(batch))}
        for batch in (1, 8)
    )
    assert alone.keys() == together.keys()
    for name, steps in alone.items():
        other = together[name]
        assert steps is not None
        assert other is not None
        assert steps.committed == other.committed


@pytest.mark.parametrize("arm", [ARMS[1], ARMS[6], ARMS[9]], ids=lambda arm: arm.name)
def test_64_requests_through_8_slots_are_as_one_at_a_time(arm: PlannedArm) -> None:
    """Of different lengths, so that slots are refilled at different times, in every order."""
    many = [
        replace(
            request, id=f"{request.id}/{number}", key=number, max_new_tokens=3 + 5 * number % 23
        )
        for number, request in enumerate(islice(cycle(requests()), 64))
    ]
    slots, alone = (
        {
            answer.request: answer.output_ids
            for answer in runner().open(who).run(many, Load(size, 1.0))
        }
        for who, size in ((arm, 8), (AR, 1))
    )
    assert len(slots) == 64
    assert slots == alone


@pytest.mark.parametrize("batch", [4, 8])
def test_ar_does_not_depend_on_its_batch(batch: int) -> None:
    assert texts(AR, batch, 1.0) == plain(1.0)


def test_sampling_samples() -> None:
    assert plain(1.0) != plain(0.0)


def test_greedy_ar_is_hugging_faces_generate() -> None:
    model = load_pretrained(runner()._folders["target"], torch.float32, "cpu", "sdpa")
    for request in requests():
        prompt = torch.tensor([request.prompt])
        found = model.generate(prompt, do_sample=False, max_new_tokens=NEW_TOKENS)
        assert tuple(found[0, prompt.shape[1] :].tolist()) == plain(0.0)[request.id]
