"""The DFlash network in few operations: the same weights, run against a cache.

What `lean` is for targets. A draft is small, so that a pass costs what it takes to start its
operations; the target's layers are fused, and the draft's have to be as well, or drafting takes the
larger part of a step. The layers are `lean`'s own, since DFlash's are Qwen3's: that queries come from
the block and keys from the context too is a matter of what the cache holds. The context of all layers is
one matrix product:

    c = hidden_norm(features W_fc)           k_0 k_1 .. v_0 v_1 ..  =  c W_keys_values

DFlash2, whose layers mix neighbours, runs through the plain modules.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dflash_bench.engine.cache import CacheShape, CacheView
from dflash_bench.engine.lean import LeanLayer, RMSNorm, attention_bias
from dflash_bench.engine.methods.dflash_attention import visible
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.engine.rope import inverse_frequencies, rotate, tables


class LeanDFlash:
    """A DFlashModel whose forward pass is this file's."""

    def __init__(self, model: DFlashModel) -> None:
        """Take over the weights of `model`, which computes the same as before, on the same memory."""
        config = self.config = model.config
        self.model = model
        self.dtype, self.device = model.fc.weight.dtype, model.fc.weight.device
        heads = config.num_key_value_heads
        layers: list[Any] = list(model.layers)
        self._group = config.num_attention_heads // heads
        self._layers = [
            LeanLayer(layer, index, heads, config.head_dim) for index, layer in enumerate(layers)
        ]
        self._fc = model.fc.weight
        self._hidden_norm, self._norm = RMSNorm(model.hidden_norm), RMSNorm(model.norm)
        # A second copy of these weights: a layer's block wants them beside its queries'.
        keys = [layer.self_attn.k_proj.weight.detach() for layer in layers]
        values = [layer.self_attn.v_proj.weight.detach() for layer in layers]
        self._keys_values = torch.cat((*keys, *values))
        self._keys_norm = RMSNorm(
            *(layer.self_attn.k_norm for layer in layers for _ in range(heads))
        )
        longest = config.max_position_embeddings or 1  # plain RoPE does not depend on it
        frequencies, self._scaling = inverse_frequencies(
            config.rope_parameters, config.head_dim, longest
        )
        self._frequencies = frequencies.to(self.device)

    def cache_shape(self) -> CacheShape:
        """Return what a cache of its context has to hold."""
        config = self.config
        return CacheShape(
            num_layers=config.num_hidden_layers,
            kv_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            dtype=self.dtype,
            device=self.device,
        )

    def remember(self, features: Tensor, positions: Tensor, cache: CacheView) -> None:
        """Write the keys and values of target features [A, L, m*H] at `positions` [A, L] to the cache."""
        config = self.config
        context = self._hidden_norm(F.linear(features, self._fc))
        projected = F.linear(context, self._keys_values)
        projected = projected.view(*positions.shape, -1, config.head_dim)
        keys, values = projected.chunk(2, 2)  # [A, L, layers*Hkv, D] each
        rotary = tables(positions[..., None], self._frequencies, self._scaling, self.dtype)
        keys = rotate(self._keys_norm(keys), rotary).transpose(1, 2)
        values = values.transpose(1, 2)  # [A, layers*Hkv, L, D]
        for layer in range(config.num_hidden_layers):
            own = slice(
                layer * config.num_key_value_heads, (layer + 1) * config.num_key_value_heads
            )
            cache.update(keys[:, own], values[:, own], layer)

    def denoise(
        self, block: Tensor, positions: Tensor, cache: CacheView, view_length: int
    ) -> Tensor:
        """Run block embeddings [A, Q, H], which it overwrites, at `positions` [A, Q] to hidden [A, Q, H].

        The block sees, beside itself, the cache's slots from 0 on that lie before it.
        """
        seen = {each: visible(each, positions, view_length) for each in set(self.config.layers)}
        if self.config.second is not None:
            masks = [seen[each][:, None] for each in self.config.layers]
            return self.model.denoise(block, positions, masks, cache.update)
        rotary = tables(positions[..., None], self._frequencies, self._scaling, self.dtype)
        biases = {
            each: attention_bias(mask, self._group, self.dtype) for each, mask in seen.items()
        }
        for each, layer in zip(self.config.layers, self._layers, strict=True):
            layer.add_attention(block, rotary, biases[each], cache)
            layer.add_mlp(block)
        return self._norm(block)
