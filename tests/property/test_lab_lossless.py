"""On the shipped models: DFlash changes no token, in any batch, greedy or sampled; greedy AR is Hugging Face's."""

from functools import cache

import pytest
import torch

from dflash_bench.engine.pretrained import load_pretrained
from dflash_bench.plan import PlannedArm
from dflash_bench.runners.base import Request
from dflash_bench.runners.reference import ReferenceRunner, make
from dflash_bench.spec import Spec
from dflash_bench.workloads.load import load_items
from dflash_bench.workloads.shape import render_prompts
from dflash_bench.workloads.workload import load_workload

NEW_TOKENS = 48
AR = PlannedArm(name="ar", method="ar")


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
        answer.request: answer.output_ids for answer in session.run(requests(), batch, temperature)
    }


@cache
def plain(temperature: float) -> dict[str, tuple[int, ...] | None]:
    return texts(AR, 1, temperature)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("batch", [1, 4, 8])
@pytest.mark.parametrize("block", [4, 16])
def test_every_dflash_text_is_ars(block: int, batch: int, temperature: float) -> None:
    arm = PlannedArm(name="dflash", method="dflash", draft="lab", block_size=block)
    assert texts(arm, batch, temperature) == plain(temperature)


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
