"""Which drafted tokens stand, and what the target says after the last of them.

match   the target chooses a token after every node of the block, greedily or by sampling, and a
draft is accepted if it is the choice after its parent, which is accepted itself. Every
committed token is the target's own given the tokens before it: the text is that of plain
decoding, whatever was drafted
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from dflash_bench.engine.draft import Anchors, Draft, ancestors, depths
from dflash_bench.engine.sampling import Sampling, choose

Rule = Literal["match", "reject"]


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


def verify(
    draft: Draft, logits: Tensor, anchors: Anchors, sampling: Sampling, rule: Rule = "match"
) -> Accepted:
    """Judge drafts [A, N] by the target's logits [A, N+1, V] of their blocks."""
    return match(draft, choose(logits, places(draft, anchors), anchors.keys, sampling))


def places(draft: Draft, anchors: Anchors) -> Tensor:
    """Return the position [A, N+1] of the token to be chosen after each node of the block."""
    if draft.parents is not None:
        return anchors.starts[:, None] + depths(ancestors(draft.parents)) + 1
    width = draft.tokens.shape[1] + 1
    return anchors.starts[:, None] + torch.arange(1, width + 1, device=draft.tokens.device)


def match(draft: Draft, chosen: Tensor) -> Accepted:
    """Accept the drafts that equal the target's choices; `chosen` [A, N+1] are those after each node."""
    rows, width = chosen.shape
    slots = torch.arange(width, device=chosen.device)
    if draft.parents is None:
        matches = draft.tokens == chosen[:, :-1]  # [A, N]
        if draft.counts is not None:
            matches = matches & (slots[:-1] < draft.counts[:, None])
        return Accepted(slots.expand(rows, -1), chosen, matches.cumprod(1).sum(1))
    matches = draft.tokens == chosen.gather(1, draft.parents)
    if draft.counts is not None:
        matches = matches & (slots[:-1] < draft.counts[:, None])
    fails = torch.cat((matches.new_zeros(rows, 1), ~matches), 1)  # [A, N+1]: the anchor stands
    stands = ~(ancestors(draft.parents) & fails[:, None]).any(-1)  # no ancestor fails
    # Siblings differ, so what stands is one path; a parent's index is below its child's.
    nodes = torch.where(stands, slots, width).sort(1).values
    counts = stands.sum(1) - 1
    nodes = nodes[:, : int(counts.max()) + 1].clamp(max=width - 1)
    return Accepted(nodes, chosen.gather(1, nodes), counts)
