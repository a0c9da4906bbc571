"""Rejection sampling in fractions: the rule as it is specified, and the exact law of the text that it makes.

A law is a tuple of probabilities, a target a function from prefix to law. Nothing is sampled here: every
draft and every decision is followed with its probability, so that a text's law is known to the last digit.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

Law = tuple[Fraction, ...]
Prefix = tuple[int, ...]
Target = Callable[[Prefix], Law]
Chances = Callable[[int, Fraction, Fraction], tuple[Fraction, Fraction]]
"""(node, p(d), q(d)) -> the chances that the draft of this node stands, and that it falls."""
ONE, ZERO = Fraction(1), Fraction(0)


@dataclass(frozen=True)
class Proposal:
    """A draft: parents as in `engine.draft`, and the law of each token given its parent and elder siblings."""

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    laws: tuple[Law, ...]


def law(*weights: int) -> Law:
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


def point(token: int, size: int) -> Law:
    return tuple(ONE if each == token else ZERO for each in range(size))


def without(weights: Law, *tokens: int) -> Law:
    """Return the law of a draw that leaves out `tokens`."""
    rest = sum(w for token, w in enumerate(weights) if token not in tokens)
    return tuple(ZERO if token in tokens else w / rest for token, w in enumerate(weights))


def residual(p: Law, q: Law) -> Law:
    rest = [max(a - b, ZERO) for a, b in zip(p, q, strict=True)]
    return tuple(each / sum(rest) for each in rest) if sum(rest) else p


def by_ratio(_node: int, p: Fraction, q: Fraction) -> tuple[Fraction, Fraction]:
    """Stand with probability min(1, p/q)."""
    stands = min(ONE, p / q) if q else ZERO
    return stands, ONE - stands


def outcomes(
    target: Target, proposal: Proposal, chances: Chances = by_ratio
) -> Iterator[tuple[Fraction, tuple[int, ...], Law]]:
    """Yield every (probability, path of nodes, law of the token after it) that the rule can come to."""

    def text(path: tuple[int, ...]) -> Prefix:
        return tuple(proposal.tokens[node - 1] for node in path[1:])

    def walk(node: int, path: tuple[int, ...], left: Law, chance: Fraction) -> Iterator[tuple]:  # type: ignore[type-arg]
        if node > len(proposal.tokens):
            yield chance, path, left
        elif proposal.parents[node - 1] != path[-1]:
            yield from walk(node + 1, path, left, chance)
        else:
            token, q = proposal.tokens[node - 1], proposal.laws[node - 1]
            stands, falls = chances(node, left[token], q[token])
            if stands:
                onward = (*path, node)
                yield from walk(node + 1, onward, target(text(onward)), chance * stands)
            if falls:
                yield from walk(node + 1, path, residual(left, q), chance * falls)

    yield from walk(1, (0,), target(()), ONE)


def text_law(
    target: Target, drafts: Iterable[tuple[Fraction, Proposal]], length: int
) -> dict[Prefix, Fraction]:
    """Return the law of the first `length` tokens: a step's tokens, and the target's own after them."""
    found: dict[Prefix, Fraction] = defaultdict(Fraction)
    size = len(target(()))
    for drawn, proposal in drafts:
        for chance, path, left in outcomes(target, proposal):
            start = tuple(proposal.tokens[node - 1] for node in path[1:])
            for token in range(size):
                weight = drawn * chance * left[token]
                if weight:
                    for end, more in continuations(target, (*start, token), length):
                        found[end] += weight * more
    return dict(found)


def target_law(target: Target, length: int) -> dict[Prefix, Fraction]:
    return dict(continuations(target, (), length))


def continuations(target: Target, prefix: Prefix, length: int) -> Iterator[tuple[Prefix, Fraction]]:
    """Yield the texts of `length` that begin with `prefix` (or its own beginning), as the target goes on."""
    if len(prefix) >= length:
        yield prefix[:length], ONE
        return
    for token, chance in enumerate(target(prefix)):
        if chance:
            for text, more in continuations(target, (*prefix, token), length):
                yield text, chance * more


def draws(laws: Sequence[Law]) -> Iterator[tuple[Fraction, tuple[int, ...]]]:
    """Yield all independent draws from `laws`, with their probabilities."""
    for tokens in product(*(range(len(each)) for each in laws)):
        chance = ONE
        for token, each in zip(tokens, laws, strict=True):
            chance *= each[token]
        if chance:
            yield chance, tokens
