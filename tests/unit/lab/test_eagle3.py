"""EAGLE-3 training: the start, the training-time test against drafting itself, and that it learns."""

from pathlib import Path

import pytest
import torch
from transformers import Qwen3ForCausalLM

from dflash_bench.engine.draft import Anchors
from dflash_bench.engine.methods.eagle3 import Eagle3Drafter
from dflash_bench.engine.methods.eagle3_model import Eagle3Model
from dflash_bench.engine.target import Target
from dflash_bench.lab import eagle3
from dflash_bench.lab.outputs import Output
from dflash_bench.lab.training import optimiser, train_step

OUTPUTS = [
    Output("x", 0.0, [*range(10, 15)], [*range(20, 40)]),
    Output("x", 0.0, [*range(50, 58)], [*range(60, 90)]),
]
DRAFTED = torch.arange(0, 400, 3)


@pytest.fixture
def model(tiny_target: Qwen3ForCausalLM) -> Eagle3Model:
    """A drafter of a third of the target's vocabulary, at its start."""
    tiny_target.requires_grad_(False)
    config = eagle3.config_for(tiny_target, len(DRAFTED))
    return eagle3.initialise(tiny_target, config, DRAFTED)


@pytest.fixture
def examples(tiny_target: Qwen3ForCausalLM) -> list[eagle3.Example]:
    return eagle3.to_examples(Target.from_model(tiny_target), OUTPUTS, eagle3.taps_of(8))


def test_the_taps_are_the_inputs_of_layers_2_half_and_3_before_the_end() -> None:
    assert eagle3.taps_of(8) == (1, 3, 4)
    assert eagle3.taps_of(36) == (1, 17, 32)


def test_an_example_keeps_the_taps_and_the_law_of_the_next_token(
    tiny_target: Qwen3ForCausalLM, examples: list[eagle3.Example]
) -> None:
    with torch.inference_mode():
        said = tiny_target(examples[0].ids[None], output_hidden_states=True)
    taps = torch.cat([said.hidden_states[i + 1][0] for i in (1, 3, 4)], -1)
    assert torch.allclose(examples[0].features.float(), taps, atol=0.02, rtol=0.02)
    logits = tiny_target.lm_head(examples[0].final.float())
    assert torch.allclose(logits, said.logits[0], atol=0.05)
    assert (len(examples[0].ids), examples[0].start) == (25, 5)


def test_the_draft_vocabulary_is_what_the_target_says_most() -> None:
    outputs = [Output("x", 0.0, [9, 9, 9], [5, 5, 7, 3]), Output("x", 0.0, [], [5, 7, 2])]
    assert eagle3.frequent_tokens(outputs, 2, 10).tolist() == [5, 7]
    assert eagle3.frequent_tokens(outputs, 3, 10).tolist() == [2, 5, 7]  # of equals the lower id


def test_the_drafter_starts_from_the_target(
    tiny_target: Qwen3ForCausalLM, model: Eagle3Model
) -> None:
    source = tiny_target.model.layers[eagle3.COPIED_LAYER]
    assert torch.equal(model.midlayer.down_proj.weight, source.mlp.down_proj.weight)
    assert torch.equal(model.midlayer.gate_up_proj.weight[-192:], source.mlp.up_proj.weight)
    assert torch.equal(model.lm_head.weight, tiny_target.lm_head.weight[DRAFTED])
    assert torch.equal(model.drafted(), DRAFTED)


def test_the_law_leaves_out_what_cannot_be_drafted(
    tiny_target: Qwen3ForCausalLM, model: Eagle3Model, examples: list[eagle3.Example]
) -> None:
    final = examples[0].final[:4].float()
    law = eagle3.law_of(final, tiny_target, tiny_target.lm_head.weight[DRAFTED])
    whole = tiny_target.lm_head(final).softmax(-1)
    assert torch.allclose(law, whole[:, DRAFTED], atol=1e-6)


def test_a_row_drafts_from_the_first_token_of_its_output_on(
    examples: list[eagle3.Example],
) -> None:
    rows = eagle3.to_rows(examples)
    assert rows.entries[:, 0].tolist() == [4, 7]  # the entry that holds the output's first token
    assert rows.last.tolist() == [[22], [35]]
    last = int(rows.entries[1, -1])
    assert last == 35
    assert rows.tokens[1, last + 2] == 89  # it says the last token


def test_a_step_of_the_training_time_test_is_a_step_of_drafting(
    tiny_target: Qwen3ForCausalLM,
    model: Eagle3Model,
    examples: list[eagle3.Example],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the text holds what the drafter says, both must compute the same logits."""
    said: list[torch.Tensor] = []
    logits = Eagle3Model.logits

    def heard(self: Eagle3Model, hidden: torch.Tensor) -> torch.Tensor:
        said.append(logits(self, hidden))
        return said[-1]

    monkeypatch.setattr(Eagle3Model, "logits", heard)
    target = Target.from_model(tiny_target)
    drafter = Eagle3Drafter(model.eval(), target, eagle3.taps_of(8), eagle3.TEST_STEPS + 1)
    example = examples[1]
    pending = example.start + 3
    target.reserve(1, 64, drafter.taps)
    drafter.reserve(1, 64)
    ids = example.ids.tolist()
    drafter.admit(0, ids[: pending + 1], example.features[None, :pending].float())
    starts, keys = torch.tensor([pending]), torch.tensor([0])
    anchors = Anchors(example.ids[pending : pending + 1], [pending], starts, keys)
    draft = drafter.draft_block(anchors)
    drafted = [each[0, 0] for each in said]  # [V'] each

    told = example.ids.clone()
    told[pending + 1 : pending + 1 + eagle3.TEST_STEPS] = draft.tokens[0]
    said.clear()
    eagle3.unrolled_loss(model, tiny_target, eagle3.to_rows([example._replace(ids=told)]))
    entry = pending - example.start  # among the row's entries, the first being start - 1
    for step, each in enumerate(drafted):
        assert torch.allclose(said[step][entry], each, atol=1e-4)


def test_a_few_steps_lower_the_loss(
    tiny_target: Qwen3ForCausalLM, model: Eagle3Model, examples: list[eagle3.Example]
) -> None:
    opt, rows = optimiser(model, 1e-3), eagle3.to_rows(examples)
    losses = [
        train_step(model, opt, eagle3.unrolled_loss(model, tiny_target, rows), 1e-3)
        for _ in range(5)
    ]
    assert losses[-1] < losses[0]


def test_training_is_a_fixed_number_of_steps_and_resumes(
    tiny_target: Qwen3ForCausalLM, tmp_path: Path
) -> None:
    outputs = [Output("x", 0.0, [*range(10, 15)], [*range(20, 20 + n)]) for n in (9, 12, 1)]
    said: list[str] = []
    for steps in (2, 3):
        eagle3.train(tiny_target, outputs, tmp_path / "state.pt", steps=steps, progress=said.append)
        assert torch.load(tmp_path / "state.pt", weights_only=True)["step"] == steps
    assert said[0] == "eagle3: 2 sequences, 31 tokens"  # after one token of output none is drafted
