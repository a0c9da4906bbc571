"""Llama and Qwen3 in few operations: Hugging Face's weights, a forward pass of our own.

On a small model, or a fast device, a forward pass costs what it takes to *start* its operations, not
what they compute. A decoder layer is written here in two dozen of them, half as many as Hugging
Face's modules need:

    q k v = norm(x) W_qkv                         one matrix instead of three
    q k = rotate(norm(q k))                       queries and keys together; only Qwen3 norms them
    x += softmax(q K^T / sqrt(D) + bias) V W_o    keys and values as the cache has them
    h = norm(x)
    x += (silu(h W_gate) * (h W_up)) W_down

Shapes: A rows, Q tokens of each, H hidden, D head; Hq query heads, in Hkv groups of G.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dflash_bench.engine.cache import CacheView
from dflash_bench.engine.hugging_face import HuggingFaceNetwork
from dflash_bench.engine.rope import Rotary, inverse_frequencies, rotate, tables
from dflash_bench.engine.taps import FINAL_NORM, features

_FAMILIES = ("llama", "qwen3")


def is_lean(config: Any) -> bool:
    """Say whether a Hugging Face configuration is one that this file computes."""
    quantized = getattr(config, "quantization_config", None) is not None
    return config.model_type in _FAMILIES and config.hidden_act == "silu" and not quantized


class LeanNetwork(HuggingFaceNetwork):
    """A Hugging Face Llama or Qwen3 whose layers are run by this file."""

    def __init__(self, model: Any) -> None:
        """Take over the weights of `model`, which computes the same as before, on the same memory.

        Only the norms' small weights are copied: a model that is trained on has to be wrapped anew.
        """
        super().__init__(model)
        config, decoder = model.config, model.get_decoder()
        shape = self.cache_shape
        self._layers = [
            LeanLayer(layer, index, shape.kv_heads, shape.head_dim)
            for index, layer in enumerate(decoder.layers)
        ]
        self._norm = RMSNorm(decoder.norm)
        self._group = config.num_attention_heads // shape.kv_heads
        inv_freq, self._rope_scaling = inverse_frequencies(
            config.rope_parameters, shape.head_dim, self.max_positions
        )
        self._inv_freq = inv_freq.to(self.device)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        mask: Tensor,
        cache: CacheView,
        taps: tuple[int, ...],
        last_only: bool,
    ) -> tuple[Tensor, Tensor]:
        """Run tokens [A, Q]; see `Network`."""
        x = self.embed(tokens)  # [A, Q, H], to which every layer adds in place
        # [A, Q, 1, D]: the same for all heads.
        rotary = tables(positions[..., None], self._inv_freq, self._rope_scaling, self.dtype)
        bias = attention_bias(mask, self._group, self.dtype)
        tapped = {}
        for index, layer in enumerate(self._layers):
            layer.add_attention(x, rotary, bias, cache)
            layer.add_mlp(x)
            if index in taps:
                tapped[index] = x.clone()
        final = tapped[FINAL_NORM] = self._norm(x)
        logits = self.lm_head(final[:, -1:] if last_only else final)
        return logits, features(taps, tapped, logits)


class LeanLayer:
    """A decoder layer: attention and MLP, each reading the normed stream and adding to it."""

    def __init__(self, layer: Any, index: int, kv_heads: int, head_dim: int) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self._index, self._kv_heads, self._head_dim = index, kv_heads, head_dim
        self._input_norm = RMSNorm(layer.input_layernorm)
        self._qkv = fuse(attention.q_proj, attention.k_proj, attention.v_proj)
        self._heads_norm = None
        if hasattr(attention, "q_norm"):
            heads = attention.q_proj.out_features // head_dim
            self._heads_norm = RMSNorm(*[attention.q_norm] * heads, *[attention.k_norm] * kv_heads)
        self._out = attention.o_proj
        self._post_norm = RMSNorm(layer.post_attention_layernorm)
        # Not fused: the matrix library takes longer for one product of twice the width than for two.
        self._gate, self._up, self._down = mlp.gate_proj, mlp.up_proj, mlp.down_proj

    def add_attention(self, x: Tensor, rotary: Rotary, bias: Tensor, cache: CacheView) -> None:
        """Add attention over the slots in view, which are to hold the new tokens too, to x [A, Q, H].

        rotary [A, Q, 1, D]; bias [A, 1, Q*G, view]. Queries of one group see the same keys: they
        stand in the place of tokens, so that keys need not be repeated.
        """
        rows, width, _ = x.shape
        projected = F.linear(self._input_norm(x), *self._qkv)
        projected = projected.view(rows, width, -1, self._head_dim)  # [A, Q, Hq+2*Hkv, D]
        turned = projected[:, :, : -self._kv_heads]  # queries and keys
        if self._heads_norm is not None:
            turned = self._heads_norm(turned)
        turned = rotate(turned, rotary).transpose(1, 2)  # [A, Hq+Hkv, Q, D]
        values = projected[:, :, -self._kv_heads :].transpose(1, 2)
        keys, values = cache.update(turned[:, -self._kv_heads :], values, self._index)
        grouped = rows, self._kv_heads, -1, width, self._head_dim
        queries = turned[:, : -self._kv_heads].view(grouped).transpose(2, 3)  # [A, Hkv, Q, G, D]
        attended = F.scaled_dot_product_attention(queries.flatten(2, 3), keys, values, bias)
        attended = attended.view(queries.shape).transpose(1, 2)  # [A, Q, Hkv, G, D]
        x.add_(self._out(attended.reshape(rows, width, -1)))

    def add_mlp(self, x: Tensor) -> None:
        """Add the gated feed-forward network to x [A, Q, H]."""
        normed = self._post_norm(x)
        x.add_(self._down(F.silu(self._gate(normed)).mul_(self._up(normed))))


class RMSNorm:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension, in float32 (arXiv:1910.07467).

    Computed as x / hypot(|x|, sqrt(n eps)) * (sqrt(n) weight), the same number in four operations.
    Several norms become one over [..., heads, n], each head with its own weight.
    """

    def __init__(self, *norms: Any) -> None:
        weights = torch.stack([norm.weight.detach().float() for norm in norms])
        size = weights.shape[-1]
        self._weight = (weights * size**0.5).squeeze(0)
        self._floor = torch.tensor((size * norms[0].variance_epsilon) ** 0.5).to(weights.device)

    def __call__(self, x: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        normed: Tensor = (x / length.hypot_(self._floor)).mul_(self._weight)
        return normed.to(x.dtype)


@torch.no_grad()
def fuse(*projections: nn.Linear) -> tuple[Tensor, Tensor | None]:
    """Return the weight and bias of several projections of one input, stacked.

    The originals become views of the stack, so that their own memory is given back: while a model is
    fused, at most one such stack exists twice.
    """

    def stack(parts: Sequence[Tensor]) -> Tensor:
        whole = torch.cat(list(parts))
        views = torch.split_with_sizes(whole, [len(part) for part in parts])
        for part, view in zip(parts, views, strict=True):
            part.data = view
        return whole

    biases = [p.bias for p in projections if p.bias is not None]
    return stack([p.weight for p in projections]), stack(biases) if biases else None


def attention_bias(mask: Tensor, group: int, dtype: torch.dtype) -> Tensor:
    """Turn a mask [A, Q, view] into what is added to scores, [A, 1, Q*G, view]: 0 or -inf.

    Attention would do so itself, in every layer anew.
    """
    bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf)
    return bias.repeat_interleave(group, 1)[:, None] if group > 1 else bias[:, None]
