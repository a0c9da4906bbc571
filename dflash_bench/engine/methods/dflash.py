"""DFlash: one parallel pass of a small network fills a block of masks (arXiv:2602.06036).

The drafter sees the committed text only through the target's hidden features, which its network
turns into keys and values, once per committed token; those are all that it keeps. A block

    [pending, MASK, MASK, ...]  at positions n, n+1, n+2, ...

attends to them, and to itself in both directions. Slot j predicts the token at its own position, so
K slots draft K-1 tokens, each its own argmax. The block's keys and values lie beyond the committed
length, where nothing sees them, until the next commit or block overwrites them.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from dflash_bench.engine.cache import CacheShape, KVCache
from dflash_bench.engine.draft import Anchors, Draft
from dflash_bench.engine.methods.base import Committed
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.engine.target import Target, block_positions


class DFlashDrafter:
    """A DFlash network beside its target, whose embedding and output head it borrows."""

    name = "dflash"

    def __init__(self, model: DFlashModel, target: Target, block_size: int | None = None) -> None:
        """Draft blocks of `block_size` tokens, the anchor counted; None: the checkpoint's own size."""
        config = model.config
        self.block_size = block_size or config.block_size
        self.taps = config.target_layer_ids
        self._model = model
        self._target = target
        self._mask_token = config.mask_token_id
        self._cache = KVCache(
            CacheShape(
                num_layers=config.num_hidden_layers,
                kv_heads=config.num_key_value_heads,
                head_dim=config.head_dim,
                dtype=target.dtype,
                device=target.device,
            )
        )

    def reserve(self, rows: int, max_length: int) -> None:
        """Make room for the context of `rows` sequences of at most `max_length` tokens."""
        self._cache.reserve(rows, max_length)

    def admit(self, row: int, tokens: Sequence[int], features: Tensor) -> None:
        """Take in the features [1, T, m*H] of a prompt, as the context of `row`."""
        self._remember(row, features, [0])

    @torch.inference_mode()
    def draft_block(self, anchors: Anchors) -> Draft:
        """Fill one block of masks per row: drafts [A, K-1] to follow the anchors."""
        pending, lengths, width = anchors.pending, anchors.lengths, self.block_size
        block = pending[:, None].repeat(1, width)  # [A, K]
        block[:, 1:] = self._mask_token
        positions = block_positions(lengths, width, pending.device)
        view = max(lengths) + width
        slots = torch.arange(view, device=pending.device)
        mask = (slots <= positions[:, -1:])[:, None, None]  # [A, 1, 1, view]: context and block
        extend = self._cache.at(0, positions, view).update
        hidden = self._model.denoise(self._target.embed(block), positions, mask, extend)
        tokens, probs = anchors.propose(self._target.lm_head(hidden[:, 1:]))
        return Draft(tokens, probs=probs)

    def commit(self, committed: Committed) -> None:
        """Take in the features of what was committed.

        Rows that committed fewer than the most keep junk beyond their length, where nothing sees
        it.
        """
        width = max(committed.counts)
        self._remember(0, committed.features[:, :width], committed.lengths)

    def move_row(self, source: int, destination: int) -> None:
        """Let the sequence of row `source` live in row `destination` from now on."""
        self._cache.move_row(source, destination)

    @torch.inference_mode()
    def _remember(self, first_row: int, features: Tensor, lengths: Sequence[int]) -> None:
        positions = block_positions(lengths, features.shape[1], features.device)
        view = self._cache.at(first_row, positions, view_length=0)
        for layer, (keys, values) in enumerate(
            self._model.context_keys_values(features, positions)
        ):
            view.update(keys, values, layer)
