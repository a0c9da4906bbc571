"""Training lowers the loss, resumes exactly, and writes a folder that loads."""

import json
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from dflash_bench.lab import target, training
from dflash_bench.lab.corpus.row import Row
from dflash_bench.lab.windows import Batch


def fixed_batch() -> Batch:
    """One batch that never changes."""
    ids = torch.randint(4, 400, (2, 48), generator=torch.Generator().manual_seed(0))
    return Batch(ids, torch.ones(2, 48))


def run(model: Qwen3ForCausalLM, opt: torch.optim.AdamW, steps: int) -> list[float]:
    """Take `steps` steps on the fixed batch and return the losses before each."""
    batch = fixed_batch()
    return [
        training.train_step(model, opt, target.weighted_loss(model, batch), 1e-3)
        for _ in range(steps)
    ]


def test_three_steps_lower_the_loss_on_a_fixed_batch(tiny_target: Qwen3ForCausalLM) -> None:
    losses = run(tiny_target, training.optimiser(tiny_target, 1e-3), 4)
    assert losses[0] > losses[1] > losses[2] > losses[3]


def test_a_token_of_no_weight_has_no_loss(tiny_target: Qwen3ForCausalLM) -> None:
    batch = fixed_batch()
    half = Batch(batch.ids, (torch.arange(48) < 24).float().expand(2, -1))
    shorter = Batch(batch.ids[:, :24], torch.ones(2, 24))
    assert target.weighted_loss(tiny_target, half).item() == pytest.approx(
        target.weighted_loss(tiny_target, shorter).item(), rel=1e-2
    )  # bf16 autocast: equal but for rounding


def test_a_resumed_training_goes_on_exactly(tiny_target: Qwen3ForCausalLM, tmp_path: Path) -> None:
    opt = training.optimiser(tiny_target, 1e-3)
    run(tiny_target, opt, 2)
    training.keep(tmp_path / "state.pt", tiny_target, opt, 2)
    expected = run(tiny_target, opt, 2)
    fresh = target.new_model(target.config(400, hidden=64), seed=99)
    fresh_opt = training.optimiser(fresh, 1e-3)
    assert training.resume(tmp_path / "state.pt", fresh, fresh_opt) == 2
    assert run(fresh, fresh_opt, 2) == expected


def test_the_learning_rate_warms_up_and_ends_at_zero() -> None:
    rates = [training.cosine(step, steps=100, warm_up=10) for step in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9] == rates[10] == 1.0
    assert rates[100] == pytest.approx(0.0)


def test_the_saved_folder_is_bf16_and_ends_turns(
    tiny_target: Qwen3ForCausalLM, lab_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    target.save(tiny_target, lab_tokenizer, tmp_path)
    loaded = Qwen3ForCausalLM.from_pretrained(tmp_path)
    assert loaded.dtype == torch.bfloat16
    assert loaded.generation_config.eos_token_id == 2
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "qwen3"
    assert (tmp_path / "tokenizer_config.json").is_file()


def test_an_untrained_target_is_about_as_good_as_chance(
    tiny_target: Qwen3ForCausalLM, lab_tokenizer: PreTrainedTokenizerFast
) -> None:
    losses = target.held_out_losses(
        tiny_target, lab_tokenizer, {"chat": [Row("chat", "Say yes.", "yes")]}
    )
    assert losses["chat"] == pytest.approx(torch.log(torch.tensor(400.0)).item(), abs=0.5)
