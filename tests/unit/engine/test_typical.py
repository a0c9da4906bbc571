"""Typical acceptance: the bound, the longest path, and the target's sample after it."""

import math

import torch

from dflash_bench.engine.draft import Draft
from dflash_bench.engine.noise import gumbel
from dflash_bench.engine.sampling import draw
from dflash_bench.engine.typical import typical

KEYS, SEED = torch.tensor([3]), 2


def judged(draft: Draft, laws: torch.Tensor) -> tuple[list[int], list[int]]:
    """Return the accepted nodes and committed tokens of one row."""
    places = 10 + draft.depths().expand(1, -1)
    accepted = typical(draft, laws[None].double(), places, KEYS, SEED)
    count = int(accepted.counts[0])
    return accepted.nodes[0, : count + 1].tolist(), accepted.tokens[0, : count + 1].tolist()


def test_the_bound_is_the_lesser_of_epsilon_and_the_entropys() -> None:
    sharp = torch.tensor([0.88, 0.1, 0.02])  # exp(-H) alpha = 0.197: epsilon 0.09 binds
    flat = torch.full((20,), 0.05)  # exp(-H) alpha = 0.015: below epsilon, and below 0.05
    assert 0.3 * math.exp((sharp * sharp.log()).sum()) > 0.09
    assert judged(Draft(torch.tensor([[1]])), sharp.repeat(2, 1))[0] == [0, 1]
    assert judged(Draft(torch.tensor([[2]])), sharp.repeat(2, 1))[0] == [0]
    assert judged(Draft(torch.tensor([[7]])), flat.repeat(2, 1))[0] == [0, 1]
    tail = torch.cat((torch.full((19,), 0.0521), torch.tensor([0.0101])))
    assert judged(Draft(torch.tensor([[19]])), tail.repeat(2, 1))[0] == [0]


def test_a_chain_stands_up_to_the_first_improbable_draft() -> None:
    laws = torch.tensor([[0.6, 0.4, 0.0]]).repeat(4, 1)
    nodes, tokens = judged(Draft(torch.tensor([[1, 2, 1]])), laws)
    assert nodes == [0, 1]
    assert tokens == [1, int(draw(laws[:1].double(), torch.tensor([[11]]), KEYS, SEED))]


def test_padding_never_stands() -> None:
    laws = torch.tensor([[0.6, 0.4]]).repeat(3, 1)
    draft = Draft(torch.tensor([[0, 1]]), counts=torch.tensor([1]))
    assert judged(draft, laws)[0] == [0, 1]


def test_of_a_tree_the_longest_path_stands_and_of_equals_the_likelier() -> None:
    laws = torch.tensor([[0.5, 0.3, 0.2]]).repeat(6, 1)
    parents = torch.tensor([[0, 0, 1, 2, 2]])
    # Paths 0-1-3 (0.5 * 0.2), 0-2-4 (0.3 * 0.3) and 0-2-5 (0.3 * 0.5).
    nodes, tokens = judged(Draft(torch.tensor([[0, 1, 2, 1, 0]]), parents), laws)
    assert nodes == [0, 2, 5]
    assert tokens[:2] == [1, 0]
    last = (laws[:1].double().log() + gumbel(torch.tensor([[12]]), KEYS, SEED, 3)[0]).argmax()
    assert tokens[2] == int(last)
    laws[2, 0] = laws[2, 1] = 0.01  # whatever the law of this node: nothing of it passes any more
    laws[2, 2] = 0.98
    assert judged(Draft(torch.tensor([[0, 1, 2, 1, 0]]), parents), laws)[0] == [0, 1, 3]
