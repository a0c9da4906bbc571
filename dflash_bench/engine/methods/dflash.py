"""DFlash: one parallel pass of a small network fills a block of masks (arXiv:2602.06036).

The drafter sees the committed text only through the target's hidden features, which its network
turns into keys and values, once per committed token; those are all that it keeps. A block

    [pending, MASK, MASK, ...]  at positions n, n+1, n+2, ...

attends to them, and to itself in both directions. Slot j predicts the token at its own position, so
K slots draft K-1 tokens, each its own argmax. The block's keys and values lie beyond the committed
length, where nothing sees them, until the next commit or block overwrites them.

The block keeps its width even where fewer of its tokens are verified (`verify_length`): it attends to
itself, so that a narrower one drafts otherwise. DFlash2's selector chooses the tokens of a block one after
another. More than one pass (`dflash_denoise`) is no published method, and here to be measured.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from dflash_bench.engine.cache import KVCache
from dflash_bench.engine.draft import Anchors, Draft
from dflash_bench.engine.methods.base import Committed
from dflash_bench.engine.methods.dflash_denoise import Pass, from_noise, unmask
from dflash_bench.engine.methods.dflash_head import DraftHead
from dflash_bench.engine.methods.dflash_lean import LeanDFlash
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.engine.methods.dflash_noise import Schedule, gaussian
from dflash_bench.engine.target import Target, block_positions

NOISE_STEPS = 4


class DFlashDrafter:
    """A DFlash network beside its target, whose embedding and output head it borrows if it has none."""

    name = "dflash"

    def __init__(
        self,
        model: DFlashModel | LeanDFlash,
        target: Target,
        block_size: int | None = None,
        *,
        verify_length: int | None = None,
        denoise_steps: int | None = None,
        noise_schedule: Schedule = "cosine",
    ) -> None:
        """Draft blocks of `block_size` nodes, the anchor counted; None: the checkpoint's own size.

        verify_length   the nodes of a block that are verified, its first ones; None: all
        denoise_steps   passes over a block; None: 1 for masks, 4 for Gaussian noise
        noise_schedule  how the noise falls from pass to pass
        """
        network = model if isinstance(model, LeanDFlash) else LeanDFlash(model)
        config = self._config = network.config
        nodes = block_size or config.max_nodes
        self.block_size = verify_length or nodes
        self.taps = config.target_layer_ids
        self._network, self._target = network, target
        self._first = 0 if config.sample_from_anchor else 1  # the first slot that drafts
        self._width = nodes - 1 + self._first
        self._beyond = (
            self._width - self.block_size
        )  # a block may reach further than what is verified
        self._steps = denoise_steps or (1 if config.noise_scale is None else NOISE_STEPS)
        self._schedule: Schedule = noise_schedule
        self._head = DraftHead(network.model, target)
        self._cache = KVCache(network.cache_shape())

    def reserve(self, rows: int, max_length: int) -> None:
        """Make room for the context of `rows` sequences of at most `max_length` tokens."""
        self._cache.reserve(rows, max_length + max(0, self._beyond))

    def admit(self, row: int, tokens: Sequence[int], features: Tensor) -> None:
        """Take in the features [1, T, m*H] of a prompt, as the context of `row`."""
        self._remember(row, features, [0])

    @torch.inference_mode()
    def draft_block(self, anchors: Anchors) -> Draft:
        """Fill one block per row, and offer its first drafts [A, block_size - 1] to follow the anchors."""
        wanted, config = self.block_size - 1, self._config
        block = anchors.pending[:, None].repeat(1, self._width)  # [A, K]
        block[:, 1:] = config.mask_token_id
        positions = anchors.starts[:, None] + torch.arange(self._width, device=block.device)
        view_length = max(anchors.lengths) + self._width
        view = self._cache.at(0, positions, view_length)

        def run(embeddings: Tensor) -> Tensor:
            return self._network.denoise(embeddings, positions, view, view_length)

        if config.noise_scale is not None:
            return Draft(self._from_noise(run, block, positions, anchors.keys)[:, :wanted])
        if self._steps > 1:
            filled = unmask(
                lambda x: self._head.logits(run(x)[:, 1:]), self._embed, block, self._steps
            )
            return Draft(filled[:, :wanted])
        hidden = run(self._embed(block))[:, self._first : self._first + wanted]
        logits = self._head.logits(hidden)
        if config.second is not None:
            selector = self._network.model.candidate_selector
            return Draft(selector.walk(hidden, logits, anchors.pending))
        tokens, probs = anchors.propose(logits)
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
        self._network.remember(features, positions, self._cache.at(first_row, positions, 0))

    def _embed(self, tokens: Tensor) -> Tensor:
        return self._head.embed(tokens)

    def _from_noise(self, run: Pass, block: Tensor, positions: Tensor, keys: Tensor) -> Tensor:
        """Fill the slots of blocks [A, K] at `positions` [A, K] from Gaussian noise: drafts [A, K-1]."""
        hidden_size, scale = self._config.hidden_size, self._config.noise_scale
        return from_noise(
            predict=lambda x: self._head.logits(run(x)[:, 1:]),
            anchor=self._embed(block[:, :1]),
            noise=lambda step: gaussian(positions[:, 1:], keys, step, hidden_size),
            level=self._network.model.noise_level,
            table=self._head.table(),
            scale=scale or 0.0,
            schedule=self._schedule,
            steps=self._steps,
        )
