"""The Gaussian drafter's training: its times, what lies beneath the noise, and that it learns."""

import random
from pathlib import Path

import pytest
import torch
from transformers import Qwen3ForCausalLM

from dflash_bench.engine.methods import dflash_checkpoint
from dflash_bench.lab import dflash, gaussian
from dflash_bench.lab.outputs import Output
from dflash_bench.lab.training import optimiser, train_step

MASK = 3
OUTPUTS = [
    Output("x", 0.0, [*range(10, 15)], [*range(20, 40)]),
    Output("x", 0.0, [*range(50, 58)], [*range(60, 64)]),
]


@pytest.fixture
def blocks(tiny_target: Qwen3ForCausalLM) -> dflash.Blocks:
    """Four anchors per sequence; some blocks reach beyond the text's end."""
    examples = dflash.to_examples(tiny_target, OUTPUTS)
    config = gaussian.config_for(tiny_target, MASK)
    return dflash.to_blocks(examples, config, 4, random.Random(0))


def test_the_noise_is_as_loud_as_the_embedding(tiny_target: Qwen3ForCausalLM) -> None:
    config = gaussian.config_for(tiny_target, MASK)
    embedding = tiny_target.model.embed_tokens.weight
    assert config.noise_scale == pytest.approx(embedding.square().mean().sqrt().item())
    assert config.block_size == gaussian.BLOCK_SIZE


def test_a_block_has_one_time_and_its_anchor_none() -> None:
    times = gaussian.draw_times(50, 8, 4, torch.Generator().manual_seed(0)).view(50, 8, 4)
    assert (times[..., 0] == 0).all()
    assert torch.equal(times[..., 1:], times[..., 1:2].expand(-1, -1, 3))
    assert ((times[..., 1] > 0) & (times[..., 1] <= 1)).all()
    pure = (times[..., 1] == 1).float().mean().item()
    assert abs(pure - gaussian.SHARE_OF_PURE_NOISE) < 0.1  # 400 blocks: four standard deviations


def test_at_time_zero_the_network_sees_the_text(
    tiny_target: Qwen3ForCausalLM, blocks: dflash.Blocks
) -> None:
    model = dflash.initialise(tiny_target, gaussian.config_for(tiny_target, MASK))
    clean, start = torch.randn(2, 32, 64), torch.zeros(2, 32)
    twice = [
        gaussian.denoise(model, clean, start, blocks, torch.Generator().manual_seed(seed))
        for seed in (0, 1)
    ]
    torch.testing.assert_close(twice[0], twice[1])  # there is no noise to differ in
    loud = gaussian.denoise(model, clean, start + 1, blocks, torch.Generator().manual_seed(0))
    assert not torch.allclose(loud, twice[0], atol=1e-3)


def test_a_few_steps_lower_the_loss_on_the_text_and_on_its_own_words(
    tiny_target: Qwen3ForCausalLM, blocks: dflash.Blocks
) -> None:
    tiny_target.requires_grad_(False)
    for own_text in (False, True):
        model = dflash.initialise(tiny_target, gaussian.config_for(tiny_target, MASK))
        opt = optimiser(model, 1e-3)
        losses = []
        for _ in range(6):
            generator = torch.Generator().manual_seed(0)
            loss = gaussian.block_loss(model, tiny_target, blocks, generator, own_text)
            losses.append(train_step(model, opt, loss, 1e-3))
        assert losses[-1] < losses[0]
        assert model.noise_level.weight.grad is not None


def test_training_is_a_fixed_number_of_steps_resumes_and_is_shipped(
    tiny_target: Qwen3ForCausalLM, tmp_path: Path
) -> None:
    for steps in (2, 3):
        model = gaussian.train(
            tiny_target, OUTPUTS, MASK, tmp_path / "state.pt", steps=steps, progress=lambda _: None
        )
        assert torch.load(tmp_path / "state.pt", weights_only=True)["step"] == steps
    dflash_checkpoint.save(model.bfloat16(), model.config, tmp_path / "draft")
    assert dflash_checkpoint.load(tmp_path / "draft").config == model.config
