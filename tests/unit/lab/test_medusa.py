"""Training of the Medusa heads: which hidden state is to say which token, the start, and that it learns."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen3ForCausalLM

from dflash_bench.lab import medusa, training
from dflash_bench.lab.outputs import Output
from dflash_bench.lab.training import keep, optimiser, train_step

OUTPUTS = [
    Output("x", 0.0, [*range(10, 15)], [*range(20, 27)]),
    Output("x", 1.0, [*range(50, 58)], [*range(60, 90)]),
    Output("x", 1.0, [*range(50, 58)], [60]),
]


@pytest.fixture
def examples(tiny_target: Qwen3ForCausalLM) -> medusa.Examples:
    """All positions of two sequences; the third has nothing two tokens ahead."""
    return medusa.to_examples(tiny_target, OUTPUTS)


def test_positions_run_from_the_prompts_last_token_to_the_last_but_two(
    examples: medusa.Examples,
) -> None:
    assert examples.hidden.shape == (6 + 29, 64)
    assert examples.labels[:6].tolist() == [
        [21, 22, 23, 24],
        [22, 23, 24, 25],
        [23, 24, 25, 26],
        [24, 25, 26, -100],
        [25, 26, -100, -100],
        [26, -100, -100, -100],
    ]
    assert examples.labels[6].tolist() == [61, 62, 63, 64]


def test_the_hidden_state_is_the_one_that_chose_the_token_before_the_first_label(
    tiny_target: Qwen3ForCausalLM, examples: medusa.Examples
) -> None:
    """So a batch with padding gives what a sequence alone gives."""
    with torch.inference_mode():
        alone = tiny_target.model(torch.tensor([[*range(10, 15), *range(20, 27)]]))
    torch.testing.assert_close(
        examples.hidden[:6].float(), alone.last_hidden_state[0, 4:10], atol=0.02, rtol=0.02
    )


def test_the_heads_start_as_the_targets(tiny_target: Qwen3ForCausalLM) -> None:
    heads, hidden = medusa.initialise(tiny_target), torch.randn(3, 64)
    assert heads(hidden).shape == (3, medusa.NUM_HEADS, 400)
    for head in range(medusa.NUM_HEADS):
        assert torch.equal(heads(hidden)[:, head], tiny_target.lm_head(hidden))


def test_a_later_head_weighs_less(tiny_target: Qwen3ForCausalLM) -> None:
    heads, hidden = medusa.initialise(tiny_target), torch.randn(2, 64)
    nothing = torch.full((2, 4), -100)
    losses = []
    for head in range(4):
        labels = nothing.clone()
        labels[0, head] = 7
        losses.append(medusa.heads_loss(heads, hidden, labels).item())
    assert losses == pytest.approx([losses[0] * 0.8**head for head in range(4)])


def test_every_position_comes_once_before_any_comes_again() -> None:
    source = medusa.batches(2500, seed=1)
    first = torch.cat([next(source) for _ in range(3)])
    assert first.sort().values.tolist() == list(range(2500))
    again = medusa.batches(2500, seed=1)
    assert torch.equal(next(again), first[: medusa.BATCH_SIZE])


def test_a_few_steps_lower_the_loss(
    tiny_target: Qwen3ForCausalLM, examples: medusa.Examples
) -> None:
    heads = medusa.initialise(tiny_target)
    opt = optimiser(heads, 1e-2)
    losses = [
        train_step(
            heads, opt, medusa.heads_loss(heads, examples.hidden.float(), examples.labels), 1e-2
        )
        for _ in range(5)
    ]
    assert losses[-1] < losses[0]


def test_a_training_that_was_killed_ends_as_one_that_was_not(
    tiny_target: Qwen3ForCausalLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(medusa, "BATCH_SIZE", 8)
    monkeypatch.setattr(medusa, "CHECKPOINT_EVERY", 2)

    def train(checkpoint: Path) -> dict[str, torch.Tensor]:
        heads = medusa.train(tiny_target, OUTPUTS, checkpoint, steps=4, progress=lambda line: None)
        return heads.state_dict()

    def keep_and_die(checkpoint: Path, *state: Any) -> None:
        keep(checkpoint, *state)
        raise KeyboardInterrupt

    whole = train(tmp_path / "whole.pt")
    with monkeypatch.context() as patch:
        patch.setattr(training, "keep", keep_and_die)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "killed.pt")
    assert torch.load(tmp_path / "killed.pt", weights_only=True)["step"] == 2
    resumed = train(tmp_path / "killed.pt")
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in whole.items())
