"""Acceptance under `match`: the drafts that the target would have chosen, and what each rule is called for."""

import pytest
import torch

from dflash_bench.engine.draft import Anchors, Draft
from dflash_bench.engine.sampling import Sampling, choose
from dflash_bench.engine.verify import LOSSY_RULES, Rule, match, places, verify


def test_only_the_leading_run_of_equal_tokens_is_accepted() -> None:
    chosen = torch.tensor([[5, 6, 7, 8]])
    drafts = {0: [9, 6, 7], 1: [5, 9, 7], 2: [5, 6, 9], 3: [5, 6, 7]}
    for count, tokens in drafts.items():
        accepted = match(Draft(torch.tensor([tokens])), chosen)
        assert accepted.counts.tolist() == [count]
        assert accepted.nodes[0, : count + 1].tolist() == list(range(count + 1))
        assert accepted.tokens[0, : count + 1].tolist() == [5, 6, 7, 8][: count + 1]


def test_rows_accept_independently() -> None:
    chosen = torch.tensor([[1, 2, 3], [1, 2, 3], [1, 2, 3]])
    draft = Draft(torch.tensor([[1, 2], [1, 9], [9, 2]]))
    assert match(draft, chosen).counts.tolist() == [2, 1, 0]


def test_padding_of_shorter_drafts_is_never_accepted() -> None:
    chosen = torch.tensor([[1, 2, 3], [1, 2, 3], [1, 2, 3]])
    draft = Draft(torch.tensor([[1, 2]] * 3), counts=torch.tensor([0, 1, 2]))
    assert match(draft, chosen).counts.tolist() == [0, 1, 2]


def test_an_empty_draft_accepts_nothing() -> None:
    empty = Draft(torch.empty(2, 0, dtype=torch.int64))
    accepted = match(empty, torch.tensor([[4], [5]]))
    assert accepted.counts.tolist() == [0, 0]
    assert accepted.tokens.tolist() == [[4], [5]]


# Node:              0  1  2  3  4  5
PARENTS = torch.tensor([[0, 0, 1, 2, 4]])


@pytest.mark.parametrize(
    ("tokens", "nodes"),
    [
        ([9, 9, 20, 30, 40], [0]),  # children of what falls fall with it
        ([10, 9, 20, 30, 40], [0, 1, 3]),
        ([9, 10, 20, 30, 40], [0, 2, 4, 5]),
        ([9, 10, 20, 9, 40], [0, 2]),
    ],
)
def test_of_a_tree_the_path_of_the_targets_choices_stands(
    tokens: list[int], nodes: list[int]
) -> None:
    chosen = torch.tensor([[10, 20, 30, 21, 40, 50]])
    accepted = match(Draft(torch.tensor([tokens]), PARENTS), chosen)
    count = len(nodes) - 1
    assert accepted.counts.tolist() == [count]
    assert accepted.nodes[0, : count + 1].tolist() == nodes
    assert accepted.tokens[0, : count + 1].tolist() == chosen[0, nodes].tolist()


def test_a_chain_spelled_out_as_a_tree_is_judged_alike() -> None:
    random = torch.Generator().manual_seed(0)
    chosen = torch.randint(2, (1000, 6), generator=random)
    tokens = torch.randint(2, (1000, 5), generator=random)
    counts = torch.randint(6, (1000,), generator=random)
    plain = match(Draft(tokens, counts=counts), chosen)
    tree = match(Draft(tokens, torch.arange(5).expand(1000, -1), counts), chosen)
    assert torch.equal(plain.counts, tree.counts)
    assert set(plain.counts.tolist()) == {0, 1, 2, 3, 4, 5}
    for row, count in enumerate(plain.counts.tolist()):
        for one, other in ((plain.nodes, tree.nodes), (plain.tokens, tree.tokens)):
            assert torch.equal(one[row, : count + 1], other[row, : count + 1])


def anchors(starts: list[int]) -> Anchors:
    rows = len(starts)
    return Anchors(
        torch.zeros(rows, dtype=torch.int64), starts, torch.tensor(starts), torch.arange(rows)
    )


def test_nodes_of_one_depth_stand_for_one_position() -> None:
    tokens = torch.zeros(2, 5, dtype=torch.int64)
    tree = Draft(tokens, PARENTS.repeat(2, 1))
    assert places(tree, anchors([7, 20])).tolist() == [
        [8, 9, 9, 10, 10, 11],
        [21, 22, 22, 23, 23, 24],
    ]
    assert places(Draft(tokens), anchors([7, 20]))[1].tolist() == [21, 22, 23, 24, 25, 26]


@pytest.mark.parametrize("rule", ["match", "reject", "typical"])
def test_every_rule_is_match_at_temperature_0_and_where_nothing_is_drafted(rule: Rule) -> None:
    random = torch.Generator().manual_seed(1)
    logits = torch.randn(40, 4, 3, generator=random)
    rows, start = anchors([5] * 40), Sampling(temperature=1.0, seed=4)
    draft = Draft(torch.randint(3, (40, 3), generator=random))
    found, plain = verify(draft, logits, rows, Sampling(), rule), match(draft, logits.argmax(-1))
    assert torch.equal(found.counts, plain.counts)
    assert torch.equal(found.tokens, plain.tokens)
    empty = verify(Draft(draft.tokens[:, :0]), logits[:, :1], rows, start, rule)
    chosen = choose(logits[:, :1], torch.full((40, 1), 6), rows.keys, start)
    assert torch.equal(empty.tokens, chosen)


def test_what_is_lossy_is_called_so() -> None:
    assert frozenset({"typical"}) == LOSSY_RULES
