"""Autoregression: nothing is drafted, each step verifies the pending token alone.

The baseline runs through the very loop of every other method, so that it pays the same overhead.
"""

from collections.abc import Sequence

from torch import Tensor

from dflash_bench.engine.draft import Anchors, Draft
from dflash_bench.engine.methods.base import Committed


class AutoregressiveDrafter:
    """Drafts no tokens and keeps no state."""

    name = "ar"
    block_size = 1
    taps: tuple[int, ...] = ()

    def reserve(self, rows: int, max_length: int) -> None:
        """Need nothing."""

    def admit(self, row: int, tokens: Sequence[int], features: Tensor) -> None:
        """Need nothing."""

    def draft_block(self, anchors: Anchors) -> Draft:
        """Return an empty draft, [A, 0]."""
        return Draft(anchors.pending.new_empty((len(anchors.pending), 0)))

    def commit(self, committed: Committed) -> None:
        """Need nothing."""

    def move_row(self, source: int, destination: int) -> None:
        """Need nothing."""
