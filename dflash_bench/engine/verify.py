"""Which drafted tokens stand: those that the target would have chosen itself.

The rule is `match`: the target chooses a token at every slot of the block, greedily or by sampling,
and drafts are accepted while they equal its choice. Every committed token is the target's own given
the tokens before it, so the text is that of plain decoding, whatever was drafted.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Draft:
    """Proposed tokens for A rows, each a chain: a token follows the one before it.

    tokens   [A, K-1] int64
    counts   [A] int64 where rows propose fewer than K-1 tokens, the rest being padding; None: all
    """

    tokens: Tensor
    counts: Tensor | None = None


def accept(draft: Draft, chosen: Tensor) -> Tensor:
    """Count the leading drafts that equal the target's choices.

    `chosen` [A, K] holds the target's token after each slot of the block [pending, d1, .., dK-1],
    so chosen[:, j] judges d(j+1). Returns the accepted drafts per row [A] int64, from 0 to K-1;
    the tokens to commit are chosen[:, :accepted + 1].
    """
    matches = draft.tokens == chosen[:, :-1]  # [A, K-1]
    if draft.counts is not None:
        slots = torch.arange(matches.shape[1], device=matches.device)
        matches = matches & (slots < draft.counts[:, None])
    return matches.cumprod(dim=1).sum(dim=1)
