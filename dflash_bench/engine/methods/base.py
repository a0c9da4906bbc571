"""What every drafting method does, in the verbs that the loop calls."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from dflash_bench.engine.verify import Draft


class Drafter(Protocol):
    """Proposes tokens and never decides. Rows in use are packed at the front of the batch.

    name        the method's name in a spec
    block_size  K, the tokens of a block with its anchor: K-1 are drafted, and 1 means none
    taps        target layers whose outputs the drafter reads, concatenated, m = len(taps)
    """

    @property
    def name(self) -> str: ...
    @property
    def block_size(self) -> int: ...
    @property
    def taps(self) -> tuple[int, ...]: ...

    def reserve(self, rows: int, max_length: int) -> None:
        """Make room for `rows` sequences of at most `max_length` tokens."""
        ...

    def admit(self, row: int, prompt: Sequence[int], features: Tensor) -> None:
        """Take in a prompt of T tokens and the target's features of it, [1, T, m*H]."""
        ...

    def draft_block(self, pending: Tensor, lengths: Sequence[int]) -> Draft:
        """Draft K-1 tokens per row, to follow `pending` [A], which stands at position `lengths`."""
        ...

    def commit(
        self, features: Tensor, lengths: Sequence[int], num_committed: Sequence[int]
    ) -> None:
        """Take in the features [A, K, m*H] of the block just verified, at positions `lengths` on.

        Of row b the first num_committed[b] are committed; the others are of rejected tokens.
        """
        ...

    def move_row(self, source: int, destination: int) -> None:
        """Let the sequence of row `source` live in row `destination` from now on."""
        ...
