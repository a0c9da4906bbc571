"""Autoregression: nothing is drafted, each step verifies the pending token alone.

The baseline runs through the very loop of every other method, so that it pays the same overhead.
"""

from collections.abc import Sequence

from torch import Tensor

from dflash_bench.engine.verify import Draft


class AutoregressiveDrafter:
    """Drafts no tokens and keeps no state."""

    name = "ar"
    block_size = 1
    taps: tuple[int, ...] = ()

    def reserve(self, rows: int, max_length: int) -> None:
        """Need nothing."""

    def admit(self, row: int, prompt: Sequence[int], features: Tensor) -> None:
        """Need nothing."""

    def draft_block(self, pending: Tensor, lengths: Sequence[int]) -> Draft:
        """Return an empty draft, [A, 0]."""
        return Draft(pending.new_empty((len(pending), 0)))

    def commit(
        self, features: Tensor, lengths: Sequence[int], num_committed: Sequence[int]
    ) -> None:
        """Need nothing."""

    def move_row(self, source: int, destination: int) -> None:
        """Need nothing."""
