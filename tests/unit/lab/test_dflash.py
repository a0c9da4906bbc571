"""Drafter training: the start, the blocks and who sees whom in them, and that it learns."""

import random
from pathlib import Path

import pytest
import torch
from transformers import Qwen3ForCausalLM

from dflash_bench.lab import dflash
from dflash_bench.lab.outputs import Output
from dflash_bench.lab.training import optimiser, train_step

MASK = 3


@pytest.fixture
def examples(tiny_target: Qwen3ForCausalLM) -> list[dflash.Example]:
    """Two sequences: 5 + 20 and 8 + 30 tokens."""
    outputs = [
        Output("x", 0.0, [*range(10, 15)], [*range(20, 40)]),
        Output("x", 0.0, [*range(50, 58)], [*range(60, 90)]),
    ]
    return dflash.to_examples(tiny_target, outputs)


@pytest.fixture
def blocks(tiny_target: Qwen3ForCausalLM, examples: list[dflash.Example]) -> dflash.Blocks:
    """Three anchors per sequence."""
    return dflash.to_blocks(examples, dflash.config_for(tiny_target, MASK), 3, random.Random(0))


def test_features_are_the_outputs_of_the_tapped_layers(
    tiny_target: Qwen3ForCausalLM, examples: list[dflash.Example]
) -> None:
    kept: dict[int, torch.Tensor] = {}
    layer = tiny_target.model.layers[dflash.TAPS[1]]
    layer.register_forward_hook(
        lambda _m, _i, out: kept.update({0: out if isinstance(out, torch.Tensor) else out[0]})
    )
    with torch.inference_mode():
        tiny_target(examples[0].ids[None])
    assert torch.equal(examples[0].features[:, 64:128], kept[0][0].bfloat16())


def test_a_block_is_its_anchor_and_masks(
    blocks: dflash.Blocks, examples: list[dflash.Example]
) -> None:
    tokens, positions = blocks.tokens.view(2, 3, 16), blocks.positions.view(2, 3, 16)
    assert (tokens[..., 1:] == MASK).all()
    for row, example in enumerate(examples):
        assert torch.equal(tokens[row, :, 0], example.ids[positions[row, :, 0]])
        assert (positions[row, :, 0] >= example.start).all()
    assert torch.equal(positions - positions[..., :1], torch.arange(16).expand(2, 3, 16))


def test_a_slot_is_to_say_the_token_at_its_own_position(
    blocks: dflash.Blocks, examples: list[dflash.Example]
) -> None:
    labels, positions = blocks.labels.view(2, 3, 16), blocks.positions.view(2, 3, 16)
    assert (labels[..., 0] == -100).all()
    for row, example in enumerate(examples):
        inside = positions[row, :, 1:] < len(example.ids)
        assert torch.equal(labels[row, :, 1:][inside], example.ids[positions[row, :, 1:][inside]])
        assert (labels[row, :, 1:][~inside] == -100).all()


def test_a_block_sees_what_is_before_its_anchor_and_itself(blocks: dflash.Blocks) -> None:
    longest = blocks.features.shape[1]
    for row in range(2):
        for query in range(48):
            anchor = blocks.positions[row, query - query % 16].item()
            seen = blocks.mask[row, 0, query]
            assert seen[:longest].tolist() == [p < anchor for p in range(longest)]
            assert seen[longest:].tolist() == [key // 16 == query // 16 for key in range(48)]


def test_the_drafter_starts_as_a_copy_of_late_layers(tiny_target: Qwen3ForCausalLM) -> None:
    model = dflash.initialise(tiny_target, dflash.config_for(tiny_target, MASK))
    for mine, theirs in enumerate(dflash.COPIED_LAYERS):
        for name, tensor in tiny_target.model.layers[theirs].state_dict().items():
            assert torch.equal(model.layers[mine].state_dict()[name], tensor)
    assert (model.fc.weight[:, :64].diagonal() - 1 / 3).abs().mean() < 0.05


def test_a_few_steps_lower_the_loss(tiny_target: Qwen3ForCausalLM, blocks: dflash.Blocks) -> None:
    tiny_target.requires_grad_(False)
    model = dflash.initialise(tiny_target, dflash.config_for(tiny_target, MASK))
    opt = optimiser(model, 1e-3)
    losses = [
        train_step(model, opt, dflash.block_loss(model, tiny_target, blocks), 1e-3)
        for _ in range(5)
    ]
    assert losses[-1] < losses[0]


def test_training_is_a_fixed_number_of_steps_and_resumes(
    tiny_target: Qwen3ForCausalLM, tmp_path: Path
) -> None:
    outputs = [Output("x", 0.0, [*range(10, 15)], [*range(20, 20 + n)]) for n in (9, 12, 1)]
    said: list[str] = []
    for steps in (2, 3):
        dflash.train(
            tiny_target, outputs, MASK, tmp_path / "state.pt", steps=steps, progress=said.append
        )
        assert torch.load(tmp_path / "state.pt", weights_only=True)["step"] == steps
    assert said[0] == "dflash: 2 sequences, 31 tokens"  # one token of output has no anchor
