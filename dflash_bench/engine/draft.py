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

import torch
from torch import Tensor

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
