"""Training of the draft model: its shape, what it reads, and that it resumes and learns."""

from itertools import islice
from pathlib import Path

import torch

from dflash_bench.lab import draft_model, target
from dflash_bench.lab.outputs import Output
from dflash_bench.lab.windows import LONG, SHORT

OUTPUTS = [Output("x", 0.0, [*range(10, 30)], [*range(20, 60 + n)]) for n in range(0, 300, 7)]


def test_it_is_the_target_in_small() -> None:
    shape = draft_model.shape(1024)
    assert (shape.num_hidden_layers, shape.hidden_size, shape.intermediate_size) == (2, 64, 192)
    assert (shape.num_attention_heads, shape.num_key_value_heads, shape.head_dim) == (2, 1, 32)
    assert shape.tie_word_embeddings
    model = target.new_model(shape)
    assert sum(p.numel() for p in model.parameters()) * 2 < 400_000  # bytes in bf16


def test_the_answer_weighs_more_than_the_prompt() -> None:
    document = draft_model.to_document(Output("x", 1.0, [5, 6, 7], [8, 9]))
    assert document.ids == [5, 6, 7, 8, 9]
    assert document.weights == [0.2, 0.2, 0.2, 1.0, 1.0]


def test_all_outputs_come_before_any_comes_again() -> None:
    count = len(OUTPUTS)
    first = list(islice(draft_model.stream(OUTPUTS, "short"), 2 * count))
    assert sorted(len(d.ids) for d in first[:count]) == sorted(len(d.ids) for d in first[count:])
    assert first[:count] != first[count:]


def test_windows_are_short_and_some_long_and_always_the_same() -> None:
    found = list(islice(draft_model.batches(OUTPUTS), 30))
    assert {batch.ids.shape for batch in found} == {(16, SHORT), (4, LONG)}
    for mine, again in zip(found, draft_model.batches(OUTPUTS), strict=False):
        assert torch.equal(mine.ids, again.ids)


def test_training_learns_is_a_fixed_number_of_steps_and_resumes(tmp_path: Path) -> None:
    checkpoint, said = tmp_path / "state.pt", list[str]()
    first = draft_model.train(400, OUTPUTS, checkpoint, steps=1, progress=said.append)
    assert torch.load(checkpoint, weights_only=True)["step"] == 1
    last = draft_model.train(400, OUTPUTS, checkpoint, steps=3, progress=said.append)
    assert torch.load(checkpoint, weights_only=True)["step"] == 3
    batch = next(draft_model.batches(OUTPUTS))
    with torch.no_grad():
        before, after = (target.weighted_loss(model, batch).item() for model in (first, last))
    assert after < before
    assert len(said) == 1  # a resumed training does not take its first step again
