"""The dynamic draft tree of EAGLE-2 and 3: wide where the drafter doubts, deep where it is sure.

A node is worth the probability of its whole path, as the drafter sees it: about the chance that it will
be accepted (arXiv:2406.16858, section 4.1). The tree grows as a beam, of which every level offers the
`top_k` likeliest children of each of its `top_k` best nodes, and in the end the best of all that was
offered are kept. No node is worth more than its parent, so the kept ones hang together.

Shapes: A rows, F nodes of a level (1, then top_k), C all candidates, V' draft vocabulary.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from dflash_bench.errors import ConfigError, did_you_mean

Advance = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(level, tokens [A, k], last features [A, F, H], origin [A, k] in those) -> features [A, k, H]."""


@dataclass(frozen=True)
class TreeShape:
    """How a tree grows: `top_k` nodes go on from every level, and children are offered per node.

    `depth` is the most tokens of a path. The reference counts the passes after the first level: its
    default of 7 is a depth of 8 here.
    """

    top_k: int = 10
    depth: int = 8

    @property
    def num_entries(self) -> int:
        """Cache slots that growing takes: every level but the last is run through the layer."""
        return (self.depth - 1) * self.top_k

    @property
    def num_candidates(self) -> int:
        """Nodes that a tree offers: the anchor's children, and those of `top_k` nodes of each level."""
        return self.top_k + (self.depth - 1) * self.top_k**2

    def within(self, draft_vocab_size: int) -> "TreeShape":
        """Return the shape for a vocabulary that may have fewer than `top_k` tokens."""
        return replace(self, top_k=min(self.top_k, draft_vocab_size))

    @classmethod
    def read(cls, setting: object) -> "TreeShape | None":
        """Read the setting `tree`: None, or top_k and depth, None being the default of each."""
        if setting is None:
            return None
        if not isinstance(setting, Mapping):
            raise ConfigError(f"tree is {setting!r}.", remedy="Give it top_k: and depth:.")
        for key in setting:
            if key not in ("top_k", "depth"):
                raise ConfigError(
                    f"tree has no {key}.", remedy=did_you_mean(str(key), ("top_k", "depth"))
                )
        numbers = {key: value for key, value in setting.items() if value is not None}
        for key, value in numbers.items():
            if type(value) is not int or value < 1:
                raise ConfigError(
                    f"tree.{key} is {value!r}.", remedy="It must be an integer of at least 1."
                )
        return cls(**numbers)


class Candidates(NamedTuple):
    """All nodes that a tree offered, [A, C] each: those of a level after those of the level before.

    tokens   int64, of the target
    parents  int64, 0 for the anchor, else 1 + the parent's index
    scores   float32, the log-probability of the path from the anchor
    """

    tokens: Tensor
    parents: Tensor
    scores: Tensor


def grow(
    hidden: Tensor,
    logits: Callable[[Tensor], Tensor],
    advance: Advance,
    ids: Tensor,
    shape: TreeShape,
) -> Candidates:
    """Grow a tree from the anchor's features [A, 1, H]; `ids` [V'] are the target's tokens."""
    rows, top_k = len(hidden), shape.top_k
    worth = hidden.new_zeros(rows, 1, dtype=torch.float32)  # [A, F]
    number = torch.zeros(rows, 1, dtype=torch.int64, device=hidden.device)  # [A, F] as in `parents`
    levels: list[Candidates] = []
    for level in range(shape.depth):
        best = logits(hidden).float().log_softmax(-1).topk(top_k)  # [A, F, k] each
        scores = (worth[..., None] + best.values).flatten(1)  # [A, F*k]
        tokens = ids[best.indices].flatten(1)
        levels.append(Candidates(tokens, number.repeat_interleave(top_k, 1), scores))
        if level + 1 < shape.depth:
            worth, chosen = scores.topk(top_k)  # [A, k]
            offered = sum(each.tokens.shape[1] for each in levels[:-1])
            number = 1 + offered + chosen
            hidden = advance(level, tokens.gather(1, chosen), hidden, chosen // top_k)
    return Candidates(*(torch.cat(parts, 1) for parts in zip(*levels, strict=True)))


def prune(grown: Candidates, size: int) -> tuple[Tensor, Tensor]:
    """Keep the `size` best nodes of each row: tokens [A, N] and their parents [A, N] as in a `Draft`.

    The order is stable: of equals the earlier one goes first, so a sure child never outdoes its parent.
    """
    order = grown.scores.argsort(dim=1, descending=True, stable=True)
    kept = order[:, :size].sort(1).values  # [A, N], parents before children
    rows, count = kept.shape
    place = torch.zeros(rows, grown.tokens.shape[1] + 1, dtype=torch.int64, device=kept.device)
    block = torch.arange(1, count + 1, device=kept.device).expand(rows, -1)
    place.scatter_(
        1, kept + 1, block
    )  # [A, C+1] each node's index in the block, the anchor's being 0
    parents = place.gather(1, grown.parents.gather(1, kept))
    return grown.tokens.gather(1, kept), parents
