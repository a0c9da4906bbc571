"""A draft: tokens and parents, of which a chain is the special case.

A block is what one pass of the target verifies: node 0 is the *anchor* (the pending token), node i is
the draft's token i-1. In a chain each node follows the one before it. In a tree `parents` says whom a
node follows, and a parent always stands before its children:

    block     pending   the  a   cat  dog      parents of the drafts: 0 0 1 1
    node         0       1   2    3    4       depth: 0 1 1 2 2

Two nodes of one depth stand for the same position of the text and see different pasts: a node sees the
committed text and its own ancestors. At most one path from the anchor is committed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import pad

from dflash_bench.engine.sampling import Sampling, propose


@dataclass(frozen=True)
class Anchors:
    """What a step starts from: A rows, each with a token that the target's cache does not hold yet.

    pending  [A] int64, the anchors
    lengths  the tokens before each anchor, which is also its position; `starts` [A] on the device
    keys     [A] int64, the requests' noise counters
    law      how drafts are drawn where the rule needs their distribution; None: by argmax
    """

    pending: Tensor
    lengths: Sequence[int]
    starts: Tensor
    keys: Tensor
    law: Sampling | None = None

    def propose(self, logits: Tensor, first: int = 1) -> tuple[Tensor, Tensor | None]:
        """Turn draft logits [A, N, V] of positions starts + first, .. into tokens [A, N].

        Beside them the probabilities [A, N, V] from which they were drawn; None if they are argmaxes.
        """
        if self.law is None:
            return logits.argmax(-1), None
        offsets = torch.arange(first, first + logits.shape[1], device=logits.device)
        return propose(logits, self.starts[:, None] + offsets, self.keys, self.law)


@dataclass(frozen=True)
class Draft:
    """Proposed tokens for A rows, N nodes each.

    tokens   [A, N] int64
    parents  [A, N] int64, each the block's index of the node that this one follows, below its own;
             siblings are different tokens. None: a chain
    counts   [A] int64 where rows propose fewer than N nodes, the rest being padding; None: all
    probs    [A, N, V] the law from which each token was really drawn, given its parent and the
             siblings before it. None: the tokens were chosen, not drawn, each law a point mass
    """

    tokens: Tensor
    parents: Tensor | None = None
    counts: Tensor | None = None
    probs: Tensor | None = None

    def followed(self) -> Tensor:
        """Return `parents` [A, N], those of a chain spelled out."""
        if self.parents is not None:
            return self.parents
        rows, width = self.tokens.shape
        return torch.arange(width, device=self.tokens.device).expand(rows, -1)

    def of_parents(self, values: Tensor) -> Tensor:
        """Return for each draft what `values` [A, N+1] has for the node that it follows, [A, N]."""
        return values[:, :-1] if self.parents is None else values.gather(1, self.parents)

    def offered(self) -> Tensor:
        """Return which nodes are proposals and no padding, bool [A, N]."""
        rows, width = self.tokens.shape
        slots = torch.arange(width, device=self.tokens.device).expand(rows, -1)
        return slots < (width if self.counts is None else self.counts[:, None])

    def family(self) -> Tensor:
        """Return who is whose ancestor or self: bool [A, N+1, N+1], row i true at i's path from the anchor."""
        if self.parents is not None:
            return self._ancestors
        rows, width = self.tokens.shape
        whole = torch.ones(width + 1, width + 1, dtype=torch.bool, device=self.tokens.device)
        return whole.tril().expand(rows, -1, -1)

    def depths(self) -> Tensor:
        """Return each node's distance from the anchor, int64 [A, N+1], or [N+1] of a chain."""
        if self.parents is not None:
            return depths(self._ancestors)
        return torch.arange(self.tokens.shape[1] + 1, device=self.tokens.device)

    @cached_property
    def _ancestors(self) -> Tensor:
        """A tree's `family`, which a step asks for several times."""
        return ancestors(self.followed())

    def extents(self) -> list[tuple[int, int]]:
        """Return of each row how many drafts are offered, and how many of them one path has at most."""
        rows, width = self.tokens.shape
        counts: list[int] = [width] * rows if self.counts is None else self.counts.tolist()
        if self.parents is None:
            return list(zip(counts, counts, strict=True))
        reach = self.depths()
        reach[:, 1:] *= self.offered()
        return list(zip(counts, reach.amax(1).tolist(), strict=True))


@dataclass(frozen=True)
class Accepted:
    """The path through each row's block that stands, and the tokens that it commits.

    nodes   [A, L] int64, block indices from the anchor (0) on; beyond a row's path: any
    tokens  [A, L] int64, the token to commit after each of these nodes
    counts  [A] int64, accepted drafts per row: tokens[b, :counts[b] + 1] are committed
    """

    nodes: Tensor
    tokens: Tensor
    counts: Tensor


def standing(draft: Draft, passed: Tensor) -> Tensor:
    """Return the nodes [A, N+1] whose drafts have all `passed` [A, N] from the anchor on, which stands."""
    if draft.counts is not None:
        passed = passed & draft.offered()
    if draft.parents is None:
        return pad(passed.cumprod(1).bool(), (1, 0), value=True)
    fails = pad(~passed, (1, 0), value=False)
    return ~(draft.family() & fails[:, None]).any(-1)


def path(draft: Draft, stands: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nodes [A, L] of the one path that stands, and how many drafts [A] are on it."""
    rows, width = stands.shape
    slots, counts = torch.arange(width, device=stands.device), stands.sum(1) - 1
    if draft.parents is None:
        return slots.expand(rows, -1), counts
    # A parent's index is below its child's, so that order is the path's.
    nodes = torch.where(stands, slots, width).sort(1).values
    return nodes[:, : int(counts.max()) + 1].clamp(max=width - 1), counts


def ending(draft: Draft, stands: Tensor, last: Tensor) -> Accepted:
    """Commit the drafts of the path that `stands` [A, N+1], and the token `last` [A] after them."""
    nodes, counts = path(draft, stands)
    block = torch.cat((last[:, None], draft.tokens), 1)
    tokens = block.gather(1, nodes).roll(-1, 1)  # after each node comes the next one
    return Accepted(nodes, tokens.scatter(1, counts[:, None], last[:, None]), counts)


def ancestors(parents: Tensor) -> Tensor:
    """Return who is whose ancestor or self: bool [A, N+1, N+1], row i true at i's path from the anchor.

    Paths double in length each round: with step = I + P, P[i, parent of i] = 1, the power
    step^(2^r) reaches 2^r generations back.
    """
    rows, num_drafts = parents.shape
    step = torch.eye(num_drafts + 1, device=parents.device).repeat(rows, 1, 1)
    step[:, 1:].scatter_(2, parents[..., None], 1.0)
    for _ in range(max(1, num_drafts.bit_length())):
        step = (step @ step).clamp_(max=1.0)
    return step > 0


def depths(seen: Tensor) -> Tensor:
    """Return each node's distance from the anchor, [A, N+1] int64, of `ancestors`' result."""
    return seen.sum(-1) - 1
