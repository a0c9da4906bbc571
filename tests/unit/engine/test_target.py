"""The target's verbs against a plain forward pass of the same Hugging Face model."""

from typing import Any

import pytest
import torch

from dflash_bench.engine.hugging_face import HuggingFaceNetwork
from dflash_bench.engine.target import Target
from tests.unit.engine.tiny import build_model, build_target

PROMPTS = ([5, 6, 7, 8, 9], [11, 12], [21, 22, 23])


@pytest.fixture(params=["qwen3", "llama"])
def model(request: pytest.FixtureRequest) -> Any:
    return build_model(request.param).eval()


def test_prefill_gives_the_logits_after_the_prompt(model: Any) -> None:
    target = Target.from_model(model)
    target.reserve(3, 16)
    for row, prompt in enumerate(PROMPTS):
        expected = model(torch.tensor([prompt])).logits[:, -1:]
        verdict = target.prefill(row, prompt)
        torch.testing.assert_close(verdict.logits, expected)
        assert verdict.features.shape[-1] == 0


def test_blocks_of_ragged_rows_are_verified_at_their_own_positions(model: Any) -> None:
    target = Target.from_model(model)
    target.reserve(3, 16)
    for row, prompt in enumerate(PROMPTS):
        target.prefill(row, prompt)
    blocks = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]
    lengths = [len(prompt) for prompt in PROMPTS]
    verdict = target.verify_block(torch.tensor(blocks), lengths)
    for row, prompt in enumerate(PROMPTS):
        expected = model(torch.tensor([prompt + blocks[row]])).logits[0, -4:]
        torch.testing.assert_close(verdict.logits[row], expected, rtol=1e-4, atol=1e-4)


def test_rejected_tokens_leave_no_trace(model: Any) -> None:
    target = Target.from_model(model)
    target.reserve(1, 16)
    target.prefill(0, PROMPTS[0])
    target.verify_block(torch.tensor([[60, 61, 62, 63]]), [5])  # of these only the first is kept
    verdict = target.verify_block(torch.tensor([[1, 2]]), [6])
    expected = model(torch.tensor([[*PROMPTS[0], 60, 1, 2]])).logits[0, -2:]
    torch.testing.assert_close(verdict.logits[0], expected, rtol=1e-4, atol=1e-4)


def test_a_moved_row_goes_on_as_before(model: Any) -> None:
    target = Target.from_model(model)
    target.reserve(2, 16)
    target.prefill(0, PROMPTS[0])
    target.prefill(1, PROMPTS[1])
    target.move_row(1, 0)
    verdict = target.verify_block(torch.tensor([[1, 2]]), [2])
    expected = model(torch.tensor([[*PROMPTS[1], 1, 2]])).logits[0, -2:]
    torch.testing.assert_close(verdict.logits[0], expected, rtol=1e-4, atol=1e-4)


def test_tap_i_is_the_output_of_layer_i(model: Any) -> None:
    target = Target.from_model(model)
    target.reserve(1, 16, taps=(0, 2))
    verdict = target.prefill(0, PROMPTS[0])
    hidden = model(torch.tensor([PROMPTS[0]]), output_hidden_states=True).hidden_states
    expected = torch.cat((hidden[1], hidden[3]), -1)  # hidden[0] is the embedding
    torch.testing.assert_close(verdict.features, expected, rtol=1e-4, atol=1e-4)


def test_taps_are_taken_off_when_nothing_reads_them() -> None:
    model = build_model().eval()
    target = Target(HuggingFaceNetwork(model))
    target.reserve(1, 16, taps=(0, 2))
    assert target.prefill(0, PROMPTS[0]).features.shape[-1] == 2 * 32
    target.reserve(1, 16)
    assert target.prefill(0, PROMPTS[0]).features.shape[-1] == 0
    assert not any(layer._forward_hooks for layer in model.get_decoder().layers)


def test_a_trees_nodes_see_their_own_ancestors_and_nothing_else(model: Any) -> None:
    target = Target.from_model(model)
    target.reserve(2, 16)
    for row, prompt in enumerate(PROMPTS[:2]):
        target.prefill(row, prompt)
    parents = [[0, 0, 1, 2, 3], [0, 1, 0, 3, 1]]
    blocks = [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]]
    lengths = [len(prompt) for prompt in PROMPTS[:2]]
    verdict = target.verify_block(torch.tensor(blocks), lengths, torch.tensor(parents))
    for row, prompt in enumerate(PROMPTS[:2]):
        for node in range(6):
            text, at = [blocks[row][node]], node
            while at > 0:
                at = parents[row][at - 1]
                text.insert(0, blocks[row][at])
            expected = model(torch.tensor([prompt + text])).logits[0, -1]
            torch.testing.assert_close(verdict.logits[row, node], expected, rtol=1e-4, atol=1e-4)


def test_the_accepted_path_of_a_tree_is_what_the_next_block_sees(model: Any) -> None:
    target = Target.from_model(model)
    target.reserve(2, 16)
    for row, prompt in enumerate(PROMPTS[:2]):
        target.prefill(row, prompt)
    parents = torch.tensor([[0, 0, 1, 2, 3], [0, 1, 0, 3, 1]])
    blocks = torch.tensor([[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]])
    target.verify_block(blocks, [5, 2], parents)
    target.commit(
        torch.tensor([[0, 2, 4], [0, 3, 0]]), [5, 2]
    )  # the second row's path has two nodes
    verdict = target.verify_block(torch.tensor([[20], [21]]), [8, 4])
    for row, text in enumerate(([*PROMPTS[0], 1, 3, 5, 20], [*PROMPTS[1], 7, 10, 21])):
        expected = model(torch.tensor([text])).logits[0, -1]
        torch.testing.assert_close(verdict.logits[row, 0], expected, rtol=1e-4, atol=1e-4)


def test_a_target_tells_its_shape() -> None:
    target = build_target()
    assert (target.hidden_size, target.vocab_size, target.num_layers) == (32, 64, 4)
    assert (target.max_positions, target.dtype) == (256, torch.float32)
    assert target.kv_bytes_per_token() == 2 * 4 * 2 * 8 * 4


@pytest.mark.parametrize(("ids", "expected"), [(None, set()), (7, {7}), ([7, 8], {7, 8})])
def test_end_tokens_come_from_the_generation_config(ids: Any, expected: set[int]) -> None:
    model = build_model()
    model.generation_config.eos_token_id = ids
    assert Target.from_model(model).eos_ids == expected
