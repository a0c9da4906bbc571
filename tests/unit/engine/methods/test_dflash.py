"""The DFlash drafter in the loop against a plain recomputation without any cache."""

import math
from typing import Any

import pytest
import torch

from dflash_bench.engine.draft import Anchors, Draft
from dflash_bench.engine.loop import Admitted, generate
from dflash_bench.engine.methods.ar import AutoregressiveDrafter
from dflash_bench.engine.methods.dflash import DFlashDrafter
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.engine.methods.dflash_noise import Schedule, gaussian
from dflash_bench.engine.sampling import Sampling
from dflash_bench.engine.target import Target
from tests.unit.engine.methods.tiny_dflash import (
    KINDS,
    build_network,
    draft_once,
    embedded,
    hidden_of,
    recompute,
)
from tests.unit.engine.tiny import (
    GREEDY,
    MASK,
    build_requests,
    build_target,
    dflash_config,
    outputs,
)

CONFIG = dflash_config()


class Recorder(DFlashDrafter):
    """A drafter that remembers what it drafted last."""

    drafted: Draft

    def draft_block(self, anchors: Anchors) -> Draft:
        self.drafted = super().draft_block(anchors)
        return self.drafted


def check_against_recomputation(
    target: Target, network: DFlashModel, drafter: Recorder, nodes: int, batch_size: int
) -> None:
    requests = build_requests(5, max_new_tokens=9)
    texts = {request.id: list(request.prompt) for request in requests}
    compared = 0
    for event in generate(
        target, drafter, requests, batch_size=batch_size, sampling=Sampling(1.0, seed=2)
    ):
        if isinstance(event, Admitted):
            texts[event.request_id].append(event.first_token)
            continue
        for row, drafts in zip(event.rows, drafter.drafted.tokens.tolist(), strict=True):
            whole = recompute(target, network, texts[row.request_id], nodes)
            assert drafts == whole[: drafter.block_size - 1]
            texts[row.request_id] += row.tokens
            compared += 1
    assert compared > 20


@pytest.mark.parametrize("family", ["qwen3", "llama"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_drafts_equal_a_recomputation_without_cache(family: str, batch_size: int) -> None:
    target, network = build_target(family), build_network()
    check_against_recomputation(target, network, Recorder(network, target, 5), 5, batch_size)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_checkpoint_drafts_as_recomputed(kind: str) -> None:
    target, network = build_target(), build_network(**KINDS[kind])
    check_against_recomputation(target, network, Recorder(network, target, 6), 6, batch_size=3)


@pytest.mark.parametrize("kind", ["plain", "second", "from-anchor"])
def test_a_block_keeps_its_width_when_fewer_of_its_tokens_are_verified(kind: str) -> None:
    target, network = build_target(), build_network(**KINDS[kind])
    drafter = Recorder(network, target, 8, verify_length=3)
    assert drafter.block_size == 3
    check_against_recomputation(target, network, drafter, 8, batch_size=3)


def test_the_comparison_would_see_a_wrong_tap() -> None:
    target, network = build_target(), build_network(target_layer_ids=(1, 2))
    text = list(range(10, 25))
    assert recompute(target, network, text, 5) != recompute(target, network, text, 5, taps=(0, 1))


def test_a_shorter_block_is_not_the_beginning_of_a_longer_one() -> None:
    """The block sees itself in both directions, so that every width has to be run."""
    target, network = build_target(), build_network()
    text = list(range(10, 25))
    assert recompute(target, network, text, 3) != recompute(target, network, text, 8)[:2]


def test_the_block_size_is_the_checkpoints_unless_asked() -> None:
    target, network = build_target(), build_network()
    assert DFlashDrafter(network, target).block_size == CONFIG.block_size == 8
    assert DFlashDrafter(network, target, 3).block_size == 3
    assert DFlashDrafter(network, target).taps == (0, 1, 2)
    from_anchor = build_network(sample_from_anchor=True)
    assert DFlashDrafter(from_anchor, target).block_size == 9  # 8 slots draft 8 tokens


NOISE: dict[str, Any] = {"noise_scale": 0.7}
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    **{kind: (changes, {}) for kind, changes in KINDS.items()},
    "verify_length": ({}, {"verify_length": 3}),
    "steps": ({}, {"denoise_steps": 3}),
    "steps and length": ({}, {"denoise_steps": 2, "verify_length": 4}),
    "noise": (NOISE, {}),
    "noise, linear, length": (NOISE, {"noise_schedule": "linear", "verify_length": 4}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_under_match_the_text_is_that_of_ar(way: str, temperature: float) -> None:
    changes, options = WAYS[way]
    target = build_target()
    drafter = DFlashDrafter(build_network(**changes), target, **options)
    requests, sampling = build_requests(4, max_new_tokens=7), Sampling(temperature, seed=3)
    expected = outputs(target, AutoregressiveDrafter(), requests, 1, sampling)
    for batch_size in (1, 3):
        assert outputs(target, drafter, requests, batch_size, sampling) == expected


POINT_MASSES = ["second", "steps", "noise"]


@pytest.mark.parametrize("way", ["plain", "own-head", *POINT_MASSES])
def test_a_law_is_told_where_the_drafts_are_drawn_from_one(way: str) -> None:
    changes, options = WAYS[way]
    target = build_target()
    drafter = Recorder(build_network(**changes), target, **options)
    requests, sampling = build_requests(3, max_new_tokens=6), Sampling(1.0, seed=3)
    outputs(target, drafter, requests, 3, sampling, rule="reject")
    probs = drafter.drafted.probs
    assert (probs is None) == (way in POINT_MASSES)
    if probs is not None:
        torch.testing.assert_close(probs.sum(-1), torch.ones_like(probs[..., 0]))
        drawn = probs.gather(-1, drafter.drafted.tokens[..., None])
        assert (drawn > 0).all()


@pytest.mark.parametrize("way", ["steps", "noise"])
def test_several_steps_draft_the_same_again_and_in_any_batch(way: str) -> None:
    changes, options = WAYS[way]
    target, requests = build_target(), build_requests(4, max_new_tokens=7)
    drafted: list[dict[str, list[Any]]] = []
    for batch_size in (1, 4, 4):
        drafter = Recorder(build_network(**changes), target, **options)
        found: dict[str, list[Any]] = {request.id: [] for request in requests}
        for event in generate(target, drafter, requests, batch_size=batch_size, sampling=GREEDY):
            if not isinstance(event, Admitted):
                for row, tokens in zip(event.rows, drafter.drafted.tokens.tolist(), strict=True):
                    found[row.request_id].append(tokens)
        drafted.append(found)
    assert drafted[0] == drafted[1] == drafted[2]


TEXT = list(range(10, 25))


def test_steps_of_unmasking_equal_a_recomputation() -> None:
    target, network, width = build_target(), build_network(), 6
    block, kept = [TEXT[-1], *[MASK] * (width - 1)], set[int]()
    for share in (2, 4, 5):  # of five slots after one, two and three steps
        embeddings = embedded(target, network, torch.tensor([block]))
        logits = target.lm_head(hidden_of(target, network, TEXT, embeddings))[0]
        probs = logits.detach().softmax(-1)
        open_slots = [slot for slot in range(1, width) if slot not in kept]
        surest = sorted(open_slots, key=lambda slot: -float(probs[slot].max()))
        for slot in surest[: share - len(kept)]:
            block[slot] = int(probs[slot].argmax())
            kept.add(slot)
    drafter = DFlashDrafter(network, target, width, denoise_steps=3)
    assert draft_once(drafter, target, TEXT) == block[1:]


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_steps_from_noise_equal_a_recomputation(schedule: Schedule) -> None:
    target, network, width, key = build_target(), build_network(**NOISE), 6, 41
    table = target.embed(torch.arange(64))
    directions = network.noise_level.weight  # [H, 2]
    positions = torch.arange(len(TEXT), len(TEXT) + width - 1)[None]
    clean, logits = torch.zeros(1, width - 1, 32), torch.empty(0)
    for step, time in enumerate((1.0, 2 / 3, 1 / 3)):
        angle = math.pi / 2 * time
        signal, noise = math.cos(angle), math.sin(angle)
        if schedule == "linear":
            signal, noise = math.sqrt(1 - time), math.sqrt(time)
        z = gaussian(positions, torch.tensor([key]), step, 32)
        slots = (
            signal * clean + noise * 0.7 * z + signal * directions[:, 0] + noise * directions[:, 1]
        )
        anchor = table[TEXT[-1]] + directions[:, 0]
        hidden = hidden_of(target, network, TEXT, torch.cat((anchor[None, None], slots), 1))
        logits = target.lm_head(hidden[:, 1:])
        clean = logits.softmax(-1) @ table
    drafter = DFlashDrafter(network, target, width, denoise_steps=3, noise_schedule=schedule)
    assert draft_once(drafter, target, TEXT, key) == logits[0].argmax(-1).tolist()
    assert draft_once(drafter, target, TEXT, key + 1) != logits[0].argmax(-1).tolist()
