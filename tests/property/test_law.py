"""The law of a text under `reject` is exactly the target's, in fractions.

The rules that are wrong are here as well, and are caught by the same check. That the engine decides as
these fractions do is in tests/unit/engine/test_reject.py; its samples are in test_law_sampled.py.
"""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product

import pytest

from tests.property import laws as exact
from tests.property.laws import ONE, Law, Prefix, Proposal, draws, point, target_law, text_law

Drafts = Iterator[tuple[Fraction, Proposal]]


def toy(prefix: Prefix) -> Law:
    """A target of three tokens whose law depends on the whole prefix; some tokens are forbidden."""
    table = {
        (): exact.law(5, 3, 2),
        (0,): exact.law(1, 1, 6),
        (1,): exact.law(0, 3, 1),
        (2,): exact.law(4, 4, 1),
    }
    if prefix in table:
        return table[prefix]
    return exact.law(1 + sum(prefix), 2 + prefix[0], (prefix[-1] * 3) % 4)


MARGINALS = (exact.law(2, 7, 1), exact.law(3, 1, 2), exact.law(1, 0, 4))
CHAIN, TREE = (0, 1, 2), (0, 0, 1, 2, 1)


def independent_marginals() -> Drafts:
    """A block drafter: each position drawn on its own, blind to the others (DFlash, Medusa)."""
    for chance, tokens in draws(MARGINALS):
        yield chance, Proposal(tokens, CHAIN, MARGINALS)


def one_after_another() -> Drafts:
    """A sequential drafter: each law given the drafted tokens (EAGLE, draft model)."""
    for tokens in product(range(3), repeat=3):
        given = (MARGINALS[0], MARGINALS[tokens[0]], MARGINALS[(tokens[0] + tokens[1]) % 3])
        chance = given[0][tokens[0]] * given[1][tokens[1]] * given[2][tokens[2]]
        if chance:
            yield chance, Proposal(tokens, CHAIN, given)


def chosen_chain() -> Drafts:
    yield ONE, Proposal((1, 0, 2), CHAIN, tuple(point(each, 3) for each in (1, 0, 2)))


def chosen_tree() -> Drafts:
    """The best tokens of each position as a tree: each law is a point mass."""
    tokens = (1, 0, 0, 2, 2)
    yield ONE, Proposal(tokens, TREE, tuple(point(each, 3) for each in tokens))


def chosen_tree_of_all() -> Drafts:
    """Every token is a child of the anchor: one of them must stand."""
    yield ONE, Proposal((2, 0, 1), (0, 0, 0), tuple(point(each, 3) for each in (2, 0, 1)))


def drawn_tree(true_law: bool = True) -> Drafts:
    """Two children of the anchor drawn without replacement, and two of the first child."""
    first, second = MARGINALS[:2]
    for a, b in permutations(range(3), 2):
        for c, d in permutations(range(3), 2):
            given = (first, exact.without(first, a), second, exact.without(second, c))
            chance = given[0][a] * given[1][b] * given[2][c] * given[3][d]
            told = given if true_law else (first, first, second, second)
            yield chance, Proposal((a, b, c, d), (0, 0, 1, 1), told)


def chosen_but_called_drawn() -> Drafts:
    yield ONE, Proposal((1, 0, 2), CHAIN, MARGINALS)


def cut_where_unsure() -> Drafts:
    """Drawn drafts, cut before the first token whose own probability is under 0.3."""
    for chance, tokens in draws(MARGINALS):
        low = [q[token] < Fraction(3, 10) for token, q in zip(tokens, MARGINALS, strict=True)]
        size = low.index(True) if True in low else 3
        yield chance, Proposal(tokens[:size], CHAIN[:size], MARGINALS[:size])


def better_of_two() -> Drafts:
    """Two drawn blocks, of which the one is offered that the drafter finds likelier."""

    def likelihood(tokens: Sequence[int]) -> Fraction:
        found = ONE
        for token, q in zip(tokens, MARGINALS, strict=True):
            found *= q[token]
        return found

    for one, other in product(draws(MARGINALS), repeat=2):
        better = max(one, other, key=lambda drawn: likelihood(drawn[1]))
        yield one[0] * other[0], Proposal(better[1], CHAIN, MARGINALS)


@pytest.mark.parametrize(
    "drafter",
    [
        independent_marginals,
        one_after_another,
        chosen_chain,
        chosen_tree,
        chosen_tree_of_all,
        drawn_tree,
    ],
)
def test_the_law_is_exactly_the_targets(drafter: Callable[[], Drafts]) -> None:
    drafts = list(drafter())
    assert sum(chance for chance, _ in drafts) == 1
    found = text_law(toy, drafts, 4)
    assert found == target_law(toy, 4)
    assert sum(found.values()) == 1


@pytest.mark.parametrize(
    "drafter",
    [
        chosen_but_called_drawn,
        cut_where_unsure,
        better_of_two,
        lambda: drawn_tree(true_law=False),
    ],
)
def test_a_law_that_is_not_the_drafts_own_shows(drafter: Callable[[], Drafts]) -> None:
    drafts = list(drafter())
    assert sum(chance for chance, _ in drafts) == 1
    found = text_law(toy, drafts, 4)
    assert sum(found.values()) == 1
    assert found != target_law(toy, 4)
