"""What every drafting method does, in the verbs that the loop calls."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dflash_bench.engine.draft import Anchors, Draft


@dataclass(frozen=True)
class Committed:
    """What a step settled: row b gained tokens[b], the last of them being its new anchor.

    lengths   the old anchors' positions: tokens[b] stand at lengths[b] + 1 and on
    tokens    per row the committed tokens, cut where the text ends
    features  [A, L, m*H] what the drafter taps of the verified tokens, L >= the most tokens of a row:
              column j is of the token at lengths[b] + j (the old anchor first); a row's columns from
              len(tokens[b]) on are of rejected ones
    """

    lengths: Sequence[int]
    tokens: Sequence[tuple[int, ...]]
    features: Tensor

    @property
    def counts(self) -> list[int]:
        """The number of tokens that each row gained."""
        return [len(row) for row in self.tokens]

    def padded(self) -> Tensor:
        """The committed tokens as [A, most of a row], a row's last token repeated behind its end."""
        width = max(self.counts)
        rows = [[*row, *[row[-1]] * (width - len(row))] for row in self.tokens]
        return torch.tensor(rows, device=self.features.device)


class Drafter(Protocol):
    """Proposes tokens and never decides. Rows in use are packed at the front of the batch.

    name        the method's name in a spec
    block_size  the most nodes of a block, its anchor counted: 1 means that nothing is drafted
    taps        target layers whose outputs the drafter reads, concatenated, m = len(taps);
                `network.FINAL_NORM` is the final normed hidden state
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

    def admit(self, row: int, tokens: Sequence[int], features: Tensor) -> None:
        """Take in a prompt and its first answer token, T+1 `tokens`; features [1, T, m*H] of the prompt."""
        ...

    def draft_block(self, anchors: Anchors) -> Draft:
        """Draft what may follow the anchors, `block_size` - 1 nodes at most."""
        ...

    def commit(self, committed: Committed) -> None:
        """Take in what the verification settled, all rows of the last draft in their order."""
        ...

    def move_row(self, source: int, destination: int) -> None:
        """Let the sequence of row `source` live in row `destination` from now on."""
        ...
