"""The model whose text is wanted: a causal LM and its cache behind four verbs.

    reserve       room for the batch's keys and values, and which layers a drafter reads
    prefill       one prompt, into one row
    verify_block  a block of tokens of every active row, each row at its own positions
    commit        the accepted path of a tree takes its place in the cache

One attention path serves them all, sdpa with explicit positions and an explicit boolean mask, so
that AR, verification and prefill differ in nothing but the number of tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dflash_bench.engine.cache import KVCache
from dflash_bench.engine.draft import ancestors, depths
from dflash_bench.engine.network import Network, network_of
from dflash_bench.engine.pretrained import load_pretrained


@dataclass(frozen=True)
class Verdict:
    """What the target says of the tokens that it was given.

    logits    [A, K, V]: row j judges what follows token j; prefill gives its last row, [1, 1, V]
    features  [A, K, m*H]: outputs of the m tapped layers, concatenated; m may be 0
    """

    logits: Tensor
    features: Tensor


class Target:
    """A causal LM, its cache, and the taps on its layers."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.device, self.dtype = network.device, network.dtype
        self.hidden_size, self.vocab_size = network.hidden_size, network.vocab_size
        self.num_layers, self.max_positions = network.num_layers, network.max_positions
        self.eos_ids = network.eos_ids
        self.embed, self.lm_head = network.embed, network.lm_head
        self._cache = KVCache(network.cache_shape)
        self._taps: tuple[int, ...] = ()

    @classmethod
    def load(
        cls,
        path_or_id: str | Path,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        attn: str = "sdpa",
    ) -> "Target":
        """Load a folder or hub id; see `pretrained` for what is refused."""
        return cls.from_model(load_pretrained(path_or_id, dtype, device, attn))

    @classmethod
    def from_model(cls, model: Any) -> "Target":
        """Wrap a Hugging Face causal LM; raises ConfigError for one that cannot be verified."""
        return cls(network_of(model.eval()))

    def kv_bytes_per_token(self) -> int:
        """Bytes of keys and values that one token of context occupies."""
        return self.network.cache_shape.bytes_per_token()

    def reserve(self, rows: int, max_length: int, taps: tuple[int, ...] = ()) -> None:
        """Make room for `rows` sequences of `max_length` tokens, and tap the layers `taps`.

        Tap i is the *output* of decoder layer i, counted from 0; `network.FINAL_NORM` what the
        output head reads.
        """
        self._cache.reserve(rows, max_length)
        self._taps = taps

    @torch.inference_mode()
    def prefill(self, row: int, prompt: Sequence[int]) -> Verdict:
        """Run a prompt of T tokens into `row`; features are of all T tokens."""
        tokens = torch.tensor([prompt], device=self.device)  # [1, T]
        slots = torch.arange(len(prompt), device=self.device)
        seen = (slots <= slots[:, None])[None]  # [1, T, T]
        return self._forward(tokens, slots[None], slots[None], seen, row, last_only=True)

    @torch.inference_mode()
    def verify_block(
        self, tokens: Tensor, lengths: Sequence[int], parents: Tensor | None = None
    ) -> Verdict:
        """Run blocks [A, K] of the first A rows, row b's anchor at position lengths[b].

        `parents` [A, K-1] makes trees of them; see `draft`.
        """
        width = tokens.shape[1]
        slots = block_positions(lengths, width, self.device)  # [A, K]
        view = torch.arange(max(lengths) + width, device=self.device)
        if parents is None:
            seen = view <= slots[..., None]  # [A, K, view]
            return self._forward(tokens, slots, slots, seen, 0)
        family = ancestors(parents)  # [A, K, K]
        starts = slots[:, :1]
        seen = (view < starts[..., None]).repeat(1, width, 1)
        seen.scatter_(2, slots[:, None].expand_as(family), family)
        return self._forward(tokens, starts + depths(family), slots, seen, 0)

    @torch.inference_mode()
    def commit(self, nodes: Tensor, lengths: Sequence[int]) -> None:
        """Let a tree's accepted path, `nodes` [A, L] of the block at `lengths`, be the next L tokens."""
        places = block_positions(lengths, nodes.shape[1], self.device)
        self._cache.move_slots(places[:, :1] + nodes, places)

    def move_row(self, source: int, destination: int) -> None:
        """Let the sequence of row `source` live in row `destination` from now on."""
        self._cache.move_row(source, destination)

    def _forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        slots: Tensor,
        seen: Tensor,
        first_row: int,
        last_only: bool = False,
    ) -> Verdict:
        view = self._cache.at(first_row, slots, seen.shape[-1])
        return Verdict(*self.network.forward(tokens, positions, seen, view, self._taps, last_only))


def block_positions(lengths: Sequence[int], width: int, device: torch.device) -> Tensor:
    """Return the positions [A, K] of blocks that start where each row ends."""
    starts = torch.tensor(lengths).to(device, non_blocking=True)  # waits for nothing that is queued
    return starts[:, None] + torch.arange(width, device=device)
