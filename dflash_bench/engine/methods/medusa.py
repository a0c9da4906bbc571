"""Medusa: heads on the target's last hidden state draft all positions at once (arXiv:2401.10774).

The drafter keeps one vector per row, the final normed hidden state of the last committed token but the
anchor: the one from which the target chose the anchor. Head i says what may stand i+1 places behind it.

    chain   one token of each head, the heads being independent
    tree    several of each head: node (r0, r1, .., rd) follows node (r0, .., r(d-1)) and is the token
            of rank rd of head d. Which ranks are worth a place is known beforehand, on average, so
            that the tree has one shape for ever
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from dflash_bench.engine.draft import Anchors, Draft
from dflash_bench.engine.methods.base import Committed
from dflash_bench.engine.methods.medusa_model import MedusaHeads
from dflash_bench.engine.taps import FINAL_NORM
from dflash_bench.engine.target import Target

Path = tuple[int, ...]
"""A node of a tree: the rank of each token from the anchor to it among its head's logits, 0 the best."""

# The 63 nodes of FasterDecoding/Medusa, medusa/model/medusa_choices.py, `mc_sim_7b_63` (Apache-2.0), chosen on
# Vicuna-7B in the order of what each adds to the expected acceptance; a digit is a rank.
_CHOICES = """
0 00 1 01 2 000 10 02 3 03 4 04 20 05 001 5 06 6 07 010 11 7 08 002 30 09 8 9 100 020 12 003 40 21 004
005 0000 011 006 030 50 13 007 008 009 60 040 14 70 012 200 31 22 80 050 15 101 021 90 060 0001 16 070
"""
CHOICES: tuple[Path, ...] = tuple(tuple(map(int, path)) for path in _CHOICES.split())


def tree_of(depth: int, top_k: int) -> tuple[Path, ...]:
    """Return the published tree's nodes down to `depth`, of ranks below `top_k`, the best first."""
    return tuple(path for path in CHOICES if len(path) <= depth and max(path) < top_k)


class MedusaDrafter:
    """Medusa heads beside their target."""

    name = "medusa"
    taps = (FINAL_NORM,)

    def __init__(
        self, heads: MedusaHeads, target: Target, block_size: int, tree: Sequence[Path] = ()
    ) -> None:
        """Draft a chain of block_size - 1 tokens, or the first block_size - 1 nodes of `tree`."""
        self.block_size = block_size
        self._heads = heads
        self._target = target
        self._hidden = torch.empty(0)
        paths = tree[: block_size - 1]
        place = {path: node for node, path in enumerate(paths, start=1)} | {(): 0}
        where = target.device
        self._parents = torch.tensor([place[path[:-1]] for path in paths], device=where)  # [N]
        self._depths = torch.tensor([len(path) - 1 for path in paths], device=where)  # [N]
        self._ranks = torch.tensor([path[-1] for path in paths], device=where)  # [N]

    def reserve(self, rows: int, max_length: int) -> None:
        """Make room for one hidden state per row."""
        shape = (rows, self._target.hidden_size)
        self._hidden = torch.zeros(shape, dtype=self._target.dtype, device=self._target.device)

    def admit(self, row: int, tokens: Sequence[int], features: Tensor) -> None:
        """Keep the hidden state of the prompt's last token."""
        self._hidden[row] = features[0, -1]

    @torch.inference_mode()
    def draft_block(self, anchors: Anchors) -> Draft:
        """Ask every head once: drafts [A, K-1]."""
        hidden = self._hidden[: len(anchors.pending)]
        if len(self._ranks):
            return self._draft_tree(hidden)
        tokens, probs = anchors.propose(self._heads(hidden, self.block_size - 1))
        return Draft(tokens, probs=probs)

    def commit(self, committed: Committed) -> None:
        """Keep the hidden state of each row's last token before its new anchor."""
        last = torch.tensor(committed.counts, device=committed.features.device) - 1  # [A]
        rows = torch.arange(len(last), device=last.device)
        self._hidden[: len(last)] = committed.features[rows, last]

    def move_row(self, source: int, destination: int) -> None:
        """Let the sequence of row `source` live in row `destination` from now on."""
        self._hidden[destination] = self._hidden[source]

    def _draft_tree(self, hidden: Tensor) -> Draft:
        logits = self._heads(hidden, int(self._depths.max()) + 1)  # [A, heads, V]
        best = logits.topk(int(self._ranks.max()) + 1).indices  # [A, heads, ranks]
        tokens = best[:, self._depths, self._ranks]
        return Draft(tokens, parents=self._parents.expand(len(hidden), -1))
