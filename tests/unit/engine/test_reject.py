"""Rejection decides as its specification in fractions does, for the same noise, draft by draft."""

from fractions import Fraction

import pytest
import torch
from torch import Tensor

from dflash_bench.engine.draft import Accepted, Anchors, Draft
from dflash_bench.engine.noise import ACCEPT, gumbel, uniform
from dflash_bench.engine.reject import reject, residual
from dflash_bench.engine.verify import places
from tests.property.laws import Law, Prefix, Proposal, outcomes, point

VOCAB, WIDTH, ROWS, SEED = 4, 6, 400, 11


def random_laws(*shape: int, seed: int) -> Tensor:
    """Return laws of which some are peaked, some flat, and some have zeros."""
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(*shape, VOCAB, generator=random, dtype=torch.float64) * 2
    holes = torch.rand(*shape, VOCAB, generator=random) < 0.15
    holes[..., 0] = False
    return logits.masked_fill(holes, float("-inf")).softmax(-1)


def random_draft(drawn: bool, tree: bool) -> Draft:
    """Return drafts of all shapes; siblings are drawn without replacement, with the law of such draws."""
    random = torch.Generator().manual_seed(3 + drawn + 2 * tree)
    parents = torch.stack(
        [
            torch.randint(node + 1, (ROWS,), generator=random)
            if tree
            else torch.full((ROWS,), node)
            for node in range(WIDTH)
        ],
        1,
    )
    laws = random_laws(ROWS, WIDTH, seed=5)
    tokens = torch.zeros(ROWS, WIDTH, dtype=torch.int64)
    for row in range(ROWS):
        for node in range(WIDTH):
            elder = parents[row, :node] == parents[row, node]
            # Where no token is left, the node gets a law of zeros and any token: it has no effect.
            laws[row, node, tokens[row, :node][elder]] = 0.0
            if laws[row, node].sum() > 0:
                laws[row, node] /= laws[row, node].sum()
                tokens[row, node] = int(torch.multinomial(laws[row, node], 1, generator=random))
    counts = torch.randint(WIDTH + 1, (ROWS,), generator=random)
    counts[: ROWS // 2] = WIDTH
    return Draft(tokens, parents if tree else None, counts, laws if drawn else None)


def judged(draft: Draft, laws: Tensor) -> tuple[Accepted, Tensor]:
    """Return what `reject` accepts, and the positions at which it decided."""
    rows = len(draft.tokens)
    starts = torch.arange(rows) % 7
    anchors = Anchors(starts, starts.tolist(), starts, torch.arange(rows) + 50)
    positions = places(draft, anchors)
    return reject(draft, laws, positions, anchors.keys, SEED), positions


def expected(draft: Draft, laws: Tensor, row: int, positions: Tensor) -> tuple[list[int], int]:
    """Return the path and the last token of `row`, in exact arithmetic but for the last argmax."""
    key = torch.tensor([50 + row])
    size = int(draft.counts[row]) if draft.counts is not None else WIDTH
    parents = draft.followed()[row].tolist()
    tokens = draft.tokens[row].tolist()

    def exact(values: Tensor) -> Law:
        return tuple(Fraction(value) for value in values.tolist())

    proposal = Proposal(
        tuple(tokens[:size]),
        tuple(parents[:size]),
        tuple(
            point(tokens[node], VOCAB) if draft.probs is None else exact(draft.probs[row, node])
            for node in range(size)
        ),
    )
    node_of: dict[Prefix, int] = {(): 0}
    for node in range(1, size + 1):
        before = next(text for text, at in node_of.items() if at == parents[node - 1])
        node_of.setdefault((*before, tokens[node - 1]), node)

    def by_coin(node: int, p: Fraction, q: Fraction) -> tuple[Fraction, Fraction]:
        place = positions[row : row + 1, node : node + 1] - 1
        coin = uniform(place, key, SEED, VOCAB, ACCEPT)[0, 0, tokens[node - 1]]
        stands = q > 0 and Fraction(float(coin)) * q < p
        return Fraction(stands), Fraction(not stands)

    ((_, path, left),) = outcomes(lambda text: exact(laws[row, node_of[text]]), proposal, by_coin)
    noise = gumbel(positions[row : row + 1, path[-1]][:, None], key, SEED, VOCAB)[0, 0]
    weights = torch.tensor([float(each) for each in left], dtype=torch.float64)
    return list(path), int((weights.log() + noise).argmax())


@pytest.mark.parametrize("drawn", [True, False], ids=["drawn", "chosen"])
@pytest.mark.parametrize("tree", [True, False], ids=["tree", "chain"])
def test_decisions_are_those_of_the_specification(tree: bool, drawn: bool) -> None:
    draft, laws = random_draft(drawn, tree), random_laws(ROWS, WIDTH + 1, seed=9)
    if not drawn and tree:  # chosen siblings differ
        kept = [first_of_their_name(draft, row) for row in range(ROWS)]
        draft = Draft(draft.tokens, draft.parents, torch.tensor(kept))
    accepted, positions = judged(draft, laws)
    for row, count in enumerate(accepted.counts.tolist()):
        path, last = expected(draft, laws, row, positions)
        assert accepted.nodes[row, : count + 1].tolist() == path
        drafts = [int(draft.tokens[row, node - 1]) for node in path[1:]]
        assert accepted.tokens[row, : count + 1].tolist() == [*drafts, last]
    assert len(set(accepted.counts.tolist())) >= 4


def first_of_their_name(draft: Draft, row: int) -> int:
    """Return how many nodes come before the first one whose elder sibling has its token."""
    seen = set[tuple[int, int]]()
    pairs = zip(draft.followed()[row].tolist(), draft.tokens[row].tolist(), strict=True)
    for node, pair in enumerate(pairs):
        if pair in seen:
            return node
        seen.add(pair)
    return WIDTH


def test_a_chain_is_judged_as_the_tree_that_it_is() -> None:
    chain, laws = random_draft(drawn=True, tree=False), random_laws(ROWS, WIDTH + 1, seed=9)
    tree = Draft(chain.tokens, chain.followed(), chain.counts, chain.probs)
    (one, _), (other, _) = judged(chain, laws), judged(tree, laws)
    assert torch.equal(one.counts, other.counts)
    for row, count in enumerate(one.counts.tolist()):
        assert torch.equal(one.tokens[row, : count + 1], other.tokens[row, : count + 1])


def test_a_drafter_with_the_targets_own_law_is_always_right() -> None:
    laws = random_laws(ROWS, WIDTH + 1, seed=1)
    tokens = laws[:, :-1].flatten(0, 1).multinomial(1).view(ROWS, WIDTH)
    accepted, _ = judged(Draft(tokens, probs=laws[:, :-1]), laws)
    assert accepted.counts.tolist() == [WIDTH] * ROWS


def test_what_the_target_forbids_is_never_committed() -> None:
    laws = random_laws(ROWS, 2, seed=2)
    laws[..., 3] = 0.0
    laws /= laws.sum(-1, keepdim=True)
    tokens = torch.full((ROWS, 1), 3)
    for probs in (None, torch.full((ROWS, 1, VOCAB), 0.25, dtype=torch.float64)):
        accepted, _ = judged(Draft(tokens, probs=probs), laws)
        assert not accepted.counts.any()
        assert (accepted.tokens[:, 0] != 3).all()


def test_a_node_without_a_law_has_no_effect() -> None:
    laws = random_laws(ROWS, 2, seed=2)
    nothing = torch.zeros(ROWS, 1, VOCAB)
    accepted, positions = judged(Draft(torch.ones(ROWS, 1, dtype=torch.int64), probs=nothing), laws)
    noise = gumbel(positions[:, :1], torch.arange(ROWS) + 50, SEED, VOCAB)[:, 0]
    assert not accepted.counts.any()
    assert torch.equal(accepted.tokens[:, 0], (laws[:, 0].log() + noise).argmax(-1))


def test_where_rounding_leaves_nothing_the_law_itself_remains() -> None:
    p = torch.tensor([[0.25, 0.75], [0.5, 0.5]], dtype=torch.float64)
    q = torch.tensor([[0.25, 0.75], [0.75, 0.25]], dtype=torch.float64)
    assert residual(p, q).tolist() == [[0.25, 0.75], [0.0, 1.0]]
