"""Trees as parents: whose ancestor a node is, which path stands, and what it commits."""

import torch

from dflash_bench.engine.draft import Draft, ancestors, depths, ending, path, standing

TOKENS = torch.tensor([[11, 12, 13, 14, 15]])
PARENTS = torch.tensor([[0, 0, 1, 2, 4]])


def lineage(parents: list[int], node: int) -> set[int]:
    """Return a node and its ancestors, by following parents one by one."""
    seen = {node}
    while node > 0:
        node = parents[node - 1]
        seen.add(node)
    return seen


def test_ancestors_are_those_of_any_tree() -> None:
    random = torch.Generator().manual_seed(0)
    for width in (0, 1, 2, 3, 7, 20, 64):
        table = [
            [int(torch.randint(node + 1, (), generator=random)) for node in range(width)]
            for _ in range(3)
        ]
        table[1] = list(range(width))  # the deepest tree there is
        seen = ancestors(torch.tensor(table, dtype=torch.int64).view(3, width))
        for row, parents in enumerate(table):
            for node in range(width + 1):
                expected = lineage(parents, node)
                assert set(seen[row, node].nonzero()[:, 0].tolist()) == expected
                assert depths(seen)[row, node] == len(expected) - 1


def test_a_chain_is_the_tree_of_only_children() -> None:
    chain, tree = Draft(TOKENS), Draft(TOKENS, torch.arange(5)[None])
    assert torch.equal(chain.followed(), tree.followed())
    assert torch.equal(chain.family(), tree.family())
    assert torch.equal(chain.depths().expand(1, -1), tree.depths())


def test_padding_is_not_offered() -> None:
    tokens = torch.zeros(3, 2, dtype=torch.int64)
    counts = torch.tensor([0, 1, 2])
    assert Draft(tokens, counts=counts).offered().tolist() == [[0, 0], [1, 0], [1, 1]]
    assert Draft(tokens).offered().all()


def test_extents_are_of_what_is_offered() -> None:
    rows = Draft(TOKENS.repeat(3, 1), PARENTS.repeat(3, 1), torch.tensor([5, 2, 0]))
    assert rows.extents() == [(5, 3), (2, 1), (0, 0)]
    assert Draft(TOKENS, PARENTS).extents() == [(5, 3)]
    assert Draft(TOKENS).extents() == [(5, 5)]
    assert Draft(TOKENS[:, :0]).extents() == [(0, 0)]


def test_what_follows_a_fallen_node_falls() -> None:
    passed = torch.tensor([[True, False, True, True, True]])
    assert standing(Draft(TOKENS), passed)[0].tolist() == [True, True, False, False, False, False]
    # In the tree node 3 follows 1, which passed; 4 and 5 follow 2, which did not.
    assert standing(Draft(TOKENS, PARENTS), passed)[0].tolist() == [1, 1, 0, 1, 0, 0]


def test_a_path_is_in_order_and_commits_its_drafts_and_the_token_after_them() -> None:
    stands = torch.tensor([[True, False, True, False, True, True]])
    draft = Draft(TOKENS, PARENTS)
    nodes, counts = path(draft, stands)
    assert (nodes.tolist(), counts.tolist()) == ([[0, 2, 4, 5]], [3])
    assert ending(draft, stands, torch.tensor([99])).tokens.tolist() == [[12, 14, 15, 99]]


def test_paths_of_different_lengths_lie_side_by_side() -> None:
    draft = Draft(TOKENS.repeat(2, 1), PARENTS.repeat(2, 1))
    stands = torch.tensor([[1, 0, 0, 0, 0, 0], [1, 1, 0, 1, 0, 0]]).bool()
    accepted = ending(draft, stands, torch.tensor([98, 99]))
    assert accepted.counts.tolist() == [0, 2]
    assert accepted.nodes[1].tolist() == [0, 1, 3]
    assert accepted.tokens[0, 0] == 98
    assert accepted.tokens[1].tolist() == [11, 13, 99]
    chain = ending(Draft(TOKENS), torch.tensor([[1, 1, 1, 0, 0, 0]]).bool(), torch.tensor([99]))
    assert chain.tokens[0, :3].tolist() == [11, 12, 99]
