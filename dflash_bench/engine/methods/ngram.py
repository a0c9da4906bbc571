"""Prompt lookup: what followed the same tokens the last time may follow them again.

No model. The last g tokens of prompt and output are looked up in the text before them, the longest g
first; what followed their most recent occurrence is the draft (Saxena, prompt-lookup-decoding, 2023,
takes the first one). Where nothing matches nothing is drafted, and the step is one of plain decoding.

An index from every g-gram to the place behind its last occurrence grows with the text, so that a step
costs what it committed and drafted, not the length of the text:

    text   a b c a b       last 2 tokens: a b       index: (a b) -> 2, so that c a b is drafted
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from dflash_bench.engine.draft import Anchors, Draft
from dflash_bench.engine.methods.base import Committed
from dflash_bench.engine.registry import Loaded, Settings
from dflash_bench.engine.target import Target
from dflash_bench.errors import ConfigError

BLOCK_SIZE, MIN_TOKENS, MAX_TOKENS = 8, 1, 3


class Text:
    """The tokens of a row, and where each of its g-grams was last followed by something."""

    def __init__(self, sizes: range) -> None:
        """Index g-grams of all `sizes`."""
        self.tokens: list[int] = []
        self._sizes = sizes
        self._behind: dict[tuple[int, ...], int] = {}

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens. The g-grams that end before each of them are known from then on."""
        for token in tokens:
            end = len(self.tokens)
            for size in self._sizes:
                if size <= end:
                    self._behind[tuple(self.tokens[end - size :])] = end
            self.tokens.append(token)

    def look_up(self, count: int) -> list[int]:
        """Return up to `count` tokens that followed the text's last tokens before; none if new."""
        for size in reversed(self._sizes):
            start = self._behind.get(tuple(self.tokens[-size:]))
            if start is not None:
                return self.tokens[start : start + count]
        return []


class NgramDrafter:
    """Copies from the text so far."""

    name = "ngram"
    taps: tuple[int, ...] = ()

    def __init__(
        self,
        block_size: int = BLOCK_SIZE,
        ngram_min: int = MIN_TOKENS,
        ngram_max: int = MAX_TOKENS,
    ) -> None:
        """Draft at most block_size - 1 tokens behind a match of ngram_max down to ngram_min tokens."""
        self.block_size = block_size
        self._sizes = range(ngram_min, ngram_max + 1)
        self._texts: dict[int, Text] = {}

    def reserve(self, rows: int, max_length: int) -> None:
        """Forget all texts."""
        self._texts.clear()

    def admit(self, row: int, tokens: Sequence[int], features: Tensor) -> None:
        """Index a prompt and its first answer token."""
        self._texts[row] = Text(self._sizes)
        self._texts[row].extend(tokens)

    def draft_block(self, anchors: Anchors) -> Draft:
        """Look up every row: drafts [A, N], N the most that any row found."""
        found = [
            self._texts[row].look_up(self.block_size - 1) for row in range(len(anchors.lengths))
        ]
        width = max(map(len, found))
        device = anchors.pending.device
        padded = [drafts + [0] * (width - len(drafts)) for drafts in found]
        tokens = torch.tensor(padded, dtype=torch.int64, device=device)
        return Draft(tokens, counts=torch.tensor([len(drafts) for drafts in found], device=device))

    def commit(self, committed: Committed) -> None:
        """Index what was committed."""
        for row, tokens in enumerate(committed.tokens):
            self._texts[row].extend(tokens)

    def move_row(self, source: int, destination: int) -> None:
        """Let the sequence of row `source` live in row `destination` from now on."""
        self._texts[destination] = self._texts.pop(source)


def build(target: Target, settings: Settings, loaded: Loaded) -> NgramDrafter:
    """Build the drafter; raises ConfigError for settings with which nothing could be drafted."""
    defaults = {"block_size": BLOCK_SIZE, "ngram_min": MIN_TOKENS, "ngram_max": MAX_TOKENS}
    least = {"block_size": 2, "ngram_min": 1, "ngram_max": 1}
    asked = {}
    for key, default in defaults.items():
        told = settings.get(key)
        value = default if told is None else told
        if type(value) is not int or value < least[key]:
            raise ConfigError(
                f"{key} is {value!r}.", remedy=f"It must be an integer of at least {least[key]}."
            )
        asked[key] = value
    if asked["ngram_min"] > asked["ngram_max"]:
        raise ConfigError(
            f"ngram_min {asked['ngram_min']} is above ngram_max {asked['ngram_max']}.",
            remedy=f"Their defaults are {MIN_TOKENS} and {MAX_TOKENS}.",
        )
    return NgramDrafter(**asked)
