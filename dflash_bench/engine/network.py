"""What the engine asks of a model: a causal LM without a cache of its own, tokens in, logits out."""

from typing import Any, Protocol

import torch
from torch import Tensor

from dflash_bench.engine.cache import CacheShape, CacheView
from dflash_bench.engine.hugging_face import HuggingFaceNetwork
from dflash_bench.engine.lean import LeanNetwork, is_lean
from dflash_bench.engine.taps import FINAL_NORM

__all__ = ["FINAL_NORM", "Network", "network_of"]


class Network(Protocol):
    """A causal LM of A rows at a time, Q tokens each.

    eos_ids      the tokens that end a text
    cache_shape  what its cache has to hold
    """

    hidden_size: int
    vocab_size: int
    num_layers: int
    max_positions: int
    dtype: torch.dtype
    device: torch.device
    cache_shape: CacheShape

    @property
    def eos_ids(self) -> frozenset[int]: ...

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        mask: Tensor,
        cache: CacheView,
        taps: tuple[int, ...],
        last_only: bool,
    ) -> tuple[Tensor, Tensor]:
        """Run tokens over what the cache holds; to be called in inference mode.

        tokens     [A, Q] int64
        positions  [A, Q] int64, of the rotary embedding
        mask       bool [A, Q, view], true where a token sees a cache slot; it sees its own
        cache      takes each layer's new keys and values, and answers with all `view` slots
        taps       whose outputs become features: decoder layers, counted from 0, or FINAL_NORM
        last_only  logits of each row's last token only

        Returns logits [A, Q, V], or [A, 1, V], and features [A, Q, m*H], in the order of the taps.
        """
        ...

    def embed(self, tokens: Tensor) -> Tensor:
        """Embed tokens [A, Q] to [A, Q, H]."""
        ...

    def lm_head(self, hidden: Tensor) -> Tensor:
        """Turn final normed hidden states [..., H] into logits [..., V]."""
        ...

    def final_norm(self, hidden: Tensor) -> Tensor:
        """Norm the last layer's output [..., H] as the output head wants it."""
        ...


def network_of(model: Any) -> Network:
    """Return the network of a Hugging Face causal LM: the lean one of its family, or its own."""
    return LeanNetwork(model) if is_lean(model.config) else HuggingFaceNetwork(model)
