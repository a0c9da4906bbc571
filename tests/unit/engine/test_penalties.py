"""Penalties: each one's definition, what counts for it, and the same logits in a block as one by one."""

import pytest
import torch
from torch import Tensor
from transformers import RepetitionPenaltyLogitsProcessor

from dflash_bench.engine.draft import Draft
from dflash_bench.engine.penalties import Penalties
from dflash_bench.engine.sampling import Sampling

VOCAB = 12
ALL = Sampling(repetition_penalty=1.5, presence_penalty=0.7, frequency_penalty=0.3)
LOGITS = torch.randn(VOCAB, generator=torch.Generator().manual_seed(0))


def one(logits: Tensor, prompt: list[int], output: list[int], sampling: Sampling) -> list[float]:
    """Penalise one row of logits, token by token as the definitions have it."""
    found = []
    for token, logit in enumerate(logits.tolist()):
        if token in prompt + output:
            factor = sampling.repetition_penalty
            logit = logit / factor if logit > 0 else logit * factor
        logit -= sampling.frequency_penalty * output.count(token)
        found.append(logit - sampling.presence_penalty * (token in output))
    return found


def state(sampling: Sampling, prompts: list[list[int]], outputs: list[list[int]]) -> Penalties:
    penalties = Penalties(sampling, len(prompts))
    for row, prompt in enumerate(prompts):
        penalties.admit(row, prompt, LOGITS.view(1, 1, -1))
        penalties.commit([outputs[row]], row)
    return penalties


EMPTY = torch.empty(1, 0, dtype=torch.int64)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(repetition_penalty=1.5),
        Sampling(repetition_penalty=0.8),
        Sampling(presence_penalty=0.7),
        Sampling(frequency_penalty=-0.4),
        ALL,
    ],
)
def test_each_penalty_is_its_definition(sampling: Sampling) -> None:
    prompt, output = [1, 1, 2, 3], [3, 4, 4, 4]
    penalties = Penalties(sampling, 1)
    first = penalties.admit(0, prompt, LOGITS.view(1, 1, -1))
    assert first[0, 0].tolist() == pytest.approx(one(LOGITS, prompt, [], sampling))
    penalties.commit([output])
    found = penalties.apply(Draft(EMPTY), LOGITS.view(1, 1, -1))
    assert found[0, 0].tolist() == pytest.approx(one(LOGITS, prompt, output, sampling))


def test_repetition_is_transformers() -> None:
    text = torch.tensor([[1, 1, 2, 3, 9]])
    expected = RepetitionPenaltyLogitsProcessor(1.3)(text, LOGITS[None].clone())
    penalties = state(Sampling(repetition_penalty=1.3), [text[0, :3].tolist()], [[3, 9]])
    assert torch.equal(penalties.apply(Draft(EMPTY), LOGITS.view(1, 1, -1))[0], expected)


@pytest.mark.parametrize("parents", [None, [[0, 0, 1, 2], [0, 1, 2, 1]]], ids=["chain", "tree"])
def test_a_node_is_penalised_for_its_path(parents: list[list[int]] | None) -> None:
    prompts, outputs = [[1, 2], [3]], [[4], [5, 5]]
    tokens = [[6, 4, 6, 1], [5, 7, 7, 0]]
    penalties = state(ALL, prompts, outputs)
    draft = Draft(torch.tensor(tokens), None if parents is None else torch.tensor(parents))
    found = penalties.apply(draft, LOGITS.expand(2, 5, -1))
    for row in range(2):
        for node in range(5):
            path, at = list[int](), node
            while at > 0:
                path.append(tokens[row][at - 1])
                at = at - 1 if parents is None else parents[row][at - 1]
            expected = one(LOGITS, prompts[row], outputs[row] + path, ALL)
            assert found[row, node].tolist() == pytest.approx(expected, abs=1e-6)


def test_a_block_has_the_very_logits_of_one_token_at_a_time() -> None:
    block = state(ALL, [[1, 2]], [[4]]).apply(
        Draft(torch.tensor([[6, 6, 2]])), LOGITS.expand(1, 4, -1)
    )
    stepwise = state(ALL, [[1, 2]], [[4]])
    for node, token in enumerate([6, 6, 2, None]):
        alone = stepwise.apply(Draft(EMPTY), LOGITS.view(1, 1, -1))
        assert torch.equal(alone[0, 0], block[0, node])
        if token is not None:
            stepwise.commit([[token]])


def test_a_row_that_is_moved_or_refilled_has_its_own_history() -> None:
    penalties = state(ALL, [[1], [2]], [[3], [4, 4]])
    penalties.move_row(1, 0)
    penalties.admit(1, [7], LOGITS.view(1, 1, -1))
    found = penalties.apply(Draft(EMPTY.expand(2, 0)), LOGITS.expand(2, 1, -1))
    assert found[0, 0].tolist() == pytest.approx(one(LOGITS, [2], [4, 4], ALL))
    assert found[1, 0].tolist() == pytest.approx(one(LOGITS, [7], [], ALL))


def test_without_a_penalty_nothing_is_kept_and_nothing_changed() -> None:
    penalties, logits = Penalties(Sampling(1.0, top_k=3), 4), LOGITS.view(1, 1, -1)
    assert penalties.admit(0, [1, 2], logits) is logits
    penalties.commit([[3]])
    penalties.move_row(1, 0)
    assert penalties.apply(Draft(EMPTY), logits) is logits
    assert not penalties._prompt.numel()
    assert not penalties._output.numel()
