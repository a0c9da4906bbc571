"""EAGLE-3: one layer drafts token after token from the target's features (arXiv:2503.01840).

What the drafter keeps of a sequence are the keys and values of its entries (see `eagle3_model`), and the
feature that the last of them put out. At an anchor at position n, entries 0 .. n-1 are made from true
features; so the first draft costs an output head only, and each further one a pass of one layer:

    chain   hidden -> d1;  (hidden, d1) -> hidden, d2;  (hidden, d2) -> hidden, d3;  ...
    tree    the same for the `top_k` likeliest nodes of each level at once

These speculated entries lie beyond the committed length, at slots n, n+1, .. When a step is settled the
true features of what was committed are run through the layer, over whatever lies there. Nothing else is
ever rolled back.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from dflash_bench.engine.cache import CacheShape, KVCache
from dflash_bench.engine.draft import Anchors, Draft
from dflash_bench.engine.hub import local_folder
from dflash_bench.engine.lean import attention_bias
from dflash_bench.engine.methods import eagle3_checkpoint
from dflash_bench.engine.methods.base import Committed
from dflash_bench.engine.methods.eagle3_model import Attend, Eagle3Model
from dflash_bench.engine.methods.eagle3_tree import TreeShape, grow, prune
from dflash_bench.engine.registry import Loaded, Settings
from dflash_bench.engine.target import Target, block_positions
from dflash_bench.errors import ConfigError

CHAIN_NODES, TREE_NODES = 8, 60


class Eagle3Drafter:
    """An EAGLE-3 network beside its target, from which it may borrow the embedding."""

    name = "eagle3"

    def __init__(
        self,
        model: Eagle3Model,
        target: Target,
        taps: tuple[int, ...],
        block_size: int = CHAIN_NODES,
        tree: TreeShape | None = None,
    ) -> None:
        """Draft blocks of `block_size` nodes, the anchor counted: a chain, or the best of a tree."""
        config = model.config
        self.block_size, self.taps = block_size, taps
        self._model, self._tree = model, tree and tree.within(config.draft_vocab_size)
        self._embed = model.embed_tokens if config.own_embeddings else target.embed
        self._ids = model.drafted()  # [V'] the target's token of each draft token
        self._vocab_size = config.vocab_size
        self._group = config.num_attention_heads // config.num_key_value_heads  # G
        self._cache = KVCache(
            CacheShape(
                num_layers=1,
                kv_heads=config.num_key_value_heads,
                head_dim=config.head_dim,
                dtype=target.dtype,
                device=target.device,
            )
        )
        self._hidden = model.fc.weight.new_zeros(0, config.hidden_size)  # [rows, H]

    def reserve(self, rows: int, max_length: int) -> None:
        """Make room for `rows` sequences of at most `max_length` tokens, and for growing a tree."""
        room = 0 if self._tree is None else self._tree.num_entries
        self._cache.reserve(rows, max_length + room)
        if len(self._hidden) < rows:
            self._hidden = self._hidden.new_zeros(rows, self._hidden.shape[1])

    @torch.inference_mode()
    def admit(self, row: int, tokens: Sequence[int], features: Tensor) -> None:
        """Make the entries of a prompt of T tokens: T features [1, T, m*H], and T+1 `tokens`."""
        following = torch.tensor([tokens[1:]], device=features.device)  # [1, T]
        self._hidden[row] = self._extend(row, following, features, [0])[0, -1]

    @torch.inference_mode()
    def draft_block(self, anchors: Anchors) -> Draft:
        """Draft a chain of block_size - 1 tokens, or as many nodes of a tree."""
        if self._tree is None:
            return self._draft_chain(anchors)
        return self._draft_tree(anchors, self._tree)

    @torch.inference_mode()
    def commit(self, committed: Committed) -> None:
        """Make the true entries of what was committed; the last is where the next block starts.

        Rows that committed fewer than the most write junk beyond their length, where nothing sees it.
        """
        following = committed.padded()  # [A, L]
        features = committed.features[:, : following.shape[1]]
        hidden = self._extend(0, following, features, committed.lengths)  # [A, L, H]
        last = torch.tensor(committed.counts, device=hidden.device)[:, None, None] - 1
        self._hidden[: len(hidden)] = hidden.take_along_dim(last, 1)[:, 0]

    def move_row(self, source: int, destination: int) -> None:
        """Let the sequence of row `source` live in row `destination` from now on."""
        self._cache.move_row(source, destination)
        with torch.inference_mode():
            self._hidden[destination] = self._hidden[source]

    def _draft_chain(self, anchors: Anchors) -> Draft:
        """Draft one token after the other; under `reject` each is drawn, given those before it."""
        steps = self.block_size - 2  # passes of the layer
        hidden = self._hidden[: len(anchors.pending), None]  # [A, 1, H]
        slots = block_positions(anchors.lengths, steps, anchors.pending.device)  # [A, K-2]
        view = max(anchors.lengths) + steps
        bias = self._bias(torch.arange(view, device=slots.device) <= slots[..., None])
        cos, sin = self._model.rotary(slots)  # [A, K-2, 1, D]
        tokens, laws = list[Tensor](), list[Tensor]()
        for step in range(self.block_size - 1):
            if step:
                at = slice(step - 1, step)
                queries = slice((step - 1) * self._group, step * self._group)
                attend = self._attend(0, slots[:, at], bias[:, :, queries])
                embedded = self._embed(tokens[-1])  # [A, 1, H]
                hidden = self._model(embedded, hidden, (cos[:, at], sin[:, at]), attend)
            drafted, law = anchors.propose(self._model.logits(hidden), step + 1)
            tokens.append(self._ids[drafted])  # [A, 1]
            if law is not None:
                laws.append(self._scatter(law))
        return Draft(torch.cat(tokens, 1), probs=torch.cat(laws, 1) if laws else None)

    def _draft_tree(self, anchors: Anchors, tree: TreeShape) -> Draft:
        """Grow a tree level by level and keep its likeliest nodes.

        They are chosen and not drawn, so that each is its own law: `probs` is None under any rule.
        """
        starts, top_k = anchors.starts, tree.top_k
        places = torch.arange(top_k, device=starts.device)
        view = max(anchors.lengths) + tree.num_entries
        seen = (torch.arange(view, device=starts.device) < starts[:, None])[:, None]  # [A, 1, view]

        def advance(level: int, tokens: Tensor, hidden: Tensor, origin: Tensor) -> Tensor:
            """Run the best nodes of `level` [A, k], children of the `origin` [A, k] of those before."""
            nonlocal seen
            slots = starts[:, None] + level * top_k + places  # [A, k]
            seen = seen.take_along_dim(origin[..., None], 1).scatter(2, slots[..., None], True)
            positions = (starts[:, None] + level).expand_as(tokens)
            hidden = hidden.take_along_dim(origin[..., None], 1)
            attend = self._attend(0, slots, self._bias(seen))
            rotary = self._model.rotary(positions)
            hidden = self._model(self._embed(tokens), hidden, rotary, attend)
            return hidden

        hidden = self._hidden[: len(starts), None]
        grown = grow(hidden, self._model.logits, advance, self._ids, tree)
        tokens, parents = prune(grown, self.block_size - 1)
        return Draft(tokens, parents)

    def _extend(
        self, first_row: int, following: Tensor, features: Tensor, lengths: Sequence[int]
    ) -> Tensor:
        """Make true entries at slots `lengths` and on; returns the features that they put out.

        features   [A, Q, m*H] of the target, of tokens lengths[b] + j
        following  [A, Q] the token after each
        """
        slots = block_positions(lengths, following.shape[1], following.device)  # [A, Q]
        view = torch.arange(max(lengths) + following.shape[1], device=slots.device)
        attend = self._attend(first_row, slots, self._bias(view <= slots[..., None]))
        embedded, fused = self._embed(following), self._model.fuse(features)
        hidden: Tensor = self._model(embedded, fused, self._model.rotary(slots), attend)
        return hidden

    def _bias(self, seen: Tensor) -> Tensor:
        """Turn who sees which slot, bool [A, Q, view], into what is added to scores, [A, 1, Q*G, view]."""
        return attention_bias(seen, self._group, self._hidden.dtype)

    def _attend(self, first_row: int, slots: Tensor, bias: Tensor) -> Attend:
        """Attend over the cache, in which the entries stand at `slots` [A, Q].

        Queries that share keys stand in the place of entries, so that keys need not be repeated.
        """
        cache = self._cache.at(first_row, slots, bias.shape[-1])

        def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            shape = (*keys.shape[:3], -1, keys.shape[3])
            grouped = queries.view(shape).transpose(1, 2)  # [A, Hkv, Q, G, D]
            keys, values = cache.update(keys.transpose(1, 2), values.transpose(1, 2), 0)
            out = F.scaled_dot_product_attention(grouped.flatten(2, 3), keys, values, bias)
            return out.view(grouped.shape).transpose(1, 2).flatten(2)

        return attend

    def _scatter(self, law: Tensor) -> Tensor:
        """Spread a law over the draft vocabulary [A, 1, V'] over the target's, [A, 1, V]."""
        whole = law.new_zeros(*law.shape[:2], self._vocab_size)
        return whole.index_copy_(2, self._ids, law)


def build(target: Target, settings: Settings, loaded: Loaded) -> Eagle3Drafter:
    """Build the drafter of the folder or hub id `draft`; `loaded` keeps what was read before.

    Settings: `block_size`, nodes with the anchor (8 for a chain, 60 for a tree, or all that it has);
    `tree`, with `top_k` and `depth`. Raises ConfigError for settings or a checkpoint that do not fit.
    """
    draft, asked = settings.get("draft"), settings.get("block_size")
    if not isinstance(draft, str | Path):
        raise ConfigError(
            f"Method 'eagle3' needs a drafter, but draft is {draft!r}.",
            remedy="Set draft: to a folder or hub id.",
        )
    tree = TreeShape.read(settings.get("tree"))
    if asked is not None and (type(asked) is not int or asked < 2):
        raise ConfigError(
            f"block_size is {asked!r}.",
            remedy="It must be an integer of at least 2: it counts the anchor, and one draft.",
        )
    folder = local_folder(draft)
    if ("eagle3", folder) not in loaded:
        model = eagle3_checkpoint.load(folder, dtype=target.dtype, device=target.device)
        loaded["eagle3", folder] = model
    model = loaded["eagle3", folder]
    taps = eagle3_checkpoint.check_fit(model.config, target, folder)
    if tree is None:
        return Eagle3Drafter(model, target, taps, asked or CHAIN_NODES)
    most = 1 + tree.within(model.config.draft_vocab_size).num_candidates
    if asked is not None and asked > most:
        raise ConfigError(
            f"block_size is {asked}, but a tree of top_k {tree.top_k} and depth {tree.depth} has {most} nodes.",
            remedy=f"Choose from 2 to {most}, the anchor counted, or a larger tree.",
        )
    return Eagle3Drafter(model, target, taps, asked or min(TREE_NODES, most), tree)
