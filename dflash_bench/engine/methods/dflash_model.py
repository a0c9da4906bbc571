"""The DFlash draft network: a few decoder layers that fill a block of masks in one parallel pass.

Block diffusion for speculative decoding (arXiv:2602.06036, section 4 and appendix A.3). The network
has no embedding and no output head of its own: both are the target's, frozen. What it knows of the
text it reads from the target's hidden features, *injected as keys and values into every layer*:

    c = hidden_norm(fc(concatenated target features))    once per committed token, for all layers
    x = x + Attention(input_layernorm(x), context=c)     keys, values from [c ; x], queries from x
    x = x + MLP(post_attention_layernorm(x))
    hidden = norm(x)                                     logits = target.lm_head(hidden)

The block attends to itself in both directions and to all of its context. Slot j predicts the token
at its *own* position. Context and block share k_proj and v_proj; c is not normed again per layer.

Shapes: B rows, Q block tokens, S context tokens, H hidden, D head, m features per token.
Parameters are named as in published checkpoints: fc.weight, layers.0.self_attn.q_proj.weight, ...
"""

from collections.abc import Callable, Iterator
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dflash_bench.engine.methods.dflash_config import DFlashConfig

Rotary = tuple[Tensor, Tensor]  # cos and sin, each [B, T, D]
KeysValues = tuple[Tensor, Tensor]  # each [B, Hkv, T, D]

Extend = Callable[[Tensor, Tensor, int], KeysValues]
"""(the block's keys, its values, layer) -> the keys and values that the block may look at.

It joins the block to its context: by a concatenation in training, by a cache when decoding.
"""


class DFlashModel(nn.Module):
    """The draft network; `config` is kept beside the weights, since neither means much alone."""

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__()
        self.config = config
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.fc = nn.Linear(len(config.target_layer_ids) * hidden, hidden, bias=False)
        self.hidden_norm = nn.RMSNorm(hidden, eps=eps)
        self.layers = nn.ModuleList(DFlashLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(hidden, eps=eps)

    def forward(
        self,
        block_embeddings: Tensor,
        block_positions: Tensor,
        context_features: Tensor,
        context_positions: Tensor,
        mask: Tensor | None,
    ) -> Tensor:
        """Run blocks against an uncached context: the whole network in one call, for training.

        Several blocks may lie side by side in Q; `mask` says who sees whom.

        block_embeddings   [B, Q, H] the target's embeddings of anchors and masks
        block_positions    [B, Q] absolute positions
        context_features   [B, S, m*H] the target's features of the committed tokens
        context_positions  [B, S] absolute positions
        mask               bool [B or 1, 1, Q, S+Q], true where a query (row) sees a key (column):
                           the S context tokens, then the Q block tokens. None: all see everything

        Returns the final normed hidden states [B, Q, H]: the target's output head turns them into
        logits for the slots' own positions.
        """
        context = self.context_keys_values(context_features, context_positions)

        def extend(keys: Tensor, values: Tensor, layer: int) -> KeysValues:
            before = context[layer]
            return torch.cat((before[0], keys), dim=2), torch.cat((before[1], values), dim=2)

        return self.denoise(block_embeddings, block_positions, mask, extend)

    def context_keys_values(self, features: Tensor, positions: Tensor) -> list[KeysValues]:
        """Project target features [B, S, m*H] to each layer's keys and values [B, Hkv, S, D]."""
        context = self.hidden_norm(self.fc(features))  # [B, S, H]
        rotary = self.rotary(positions, context.dtype)
        return [layer.self_attn.keys_values(context, rotary) for layer in self._layers()]

    def denoise(
        self, block: Tensor, positions: Tensor, mask: Tensor | None, extend: Extend
    ) -> Tensor:
        """Run block embeddings [B, Q, H] through all layers in one pass, to hidden [B, Q, H]."""
        rotary = self.rotary(positions, block.dtype)
        for index, layer in enumerate(self._layers()):
            block = layer(block, rotary, mask, index, extend)
        hidden: Tensor = self.norm(block)
        return hidden

    def rotary(self, positions: Tensor, dtype: torch.dtype) -> Rotary:
        """Cosines and sines [B, T, D] of rotary position embedding at absolute `positions` [B, T].

        Su et al., arXiv:2104.09864, in the half-split layout of Llama and Qwen. Angles are taken in
        float32: at position 40,000 a bf16 angle is off by whole turns.
        """
        dim, device = self.config.head_dim, positions.device
        exponents = torch.arange(0, dim, 2, dtype=torch.float32, device=device) / dim
        angles = positions[..., None].float() * self.config.rope_theta**-exponents  # [B, T, D/2]
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(dtype), angles.sin().to(dtype)

    def _layers(self) -> "Iterator[DFlashLayer]":
        return cast("Iterator[DFlashLayer]", iter(self.layers))


class DFlashLayer(nn.Module):
    """A pre-norm decoder layer of Qwen3's form, whose attention also sees the injected context."""

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__()
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.input_layernorm = nn.RMSNorm(hidden, eps=eps)
        self.self_attn = DFlashAttention(config)
        self.post_attention_layernorm = nn.RMSNorm(hidden, eps=eps)
        self.mlp = DFlashMLP(hidden, config.intermediate_size)

    def forward(
        self, x: Tensor, rotary: Rotary, mask: Tensor | None, index: int, extend: Extend
    ) -> Tensor:
        normed = self.input_layernorm(x)  # [B, Q, H]
        keys, values = extend(*self.self_attn.keys_values(normed, rotary), index)
        x = x + self.self_attn(normed, rotary, keys, values, mask)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class DFlashAttention(nn.Module):
    """Grouped-query attention with per-head norms; queries come from the block alone."""

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__()
        hidden, self.head_dim = config.hidden_size, config.head_dim
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.q_proj = nn.Linear(hidden, heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden, kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden, kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(heads * self.head_dim, hidden, bias=False)
        self.q_norm = nn.RMSNorm(self.head_dim, eps=config.rms_norm_eps)
        self.k_norm = nn.RMSNorm(self.head_dim, eps=config.rms_norm_eps)

    def keys_values(self, x: Tensor, rotary: Rotary) -> KeysValues:
        """Project x [B, T, H], context or block, to rotated keys and values [B, Hkv, T, D]."""
        keys = self.k_norm(self._heads(self.k_proj(x)))
        return _rotate(keys.transpose(1, 2), rotary), self._heads(self.v_proj(x)).transpose(1, 2)

    def forward(
        self, x: Tensor, rotary: Rotary, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> Tensor:
        queries = self.q_norm(self._heads(self.q_proj(x))).transpose(1, 2)  # [B, Hq, Q, D]
        grouped = queries.shape[1] != keys.shape[1]
        attended = F.scaled_dot_product_attention(
            _rotate(queries, rotary), keys, values, attn_mask=mask, enable_gqa=grouped
        )
        out: Tensor = self.o_proj(attended.transpose(1, 2).flatten(2))  # [B, Q, H]
        return out

    def _heads(self, x: Tensor) -> Tensor:
        heads = x.shape[-1] // self.head_dim
        return x.view(*x.shape[:-1], heads, self.head_dim)  # [B, T, heads, D]


class DFlashMLP(nn.Module):
    """The gated feed-forward network of Llama and Qwen: down(silu(gate(x)) * up(x))."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


def _rotate(x: Tensor, rotary: Rotary) -> Tensor:
    """Rotate each pair (x_i, x_{i + D/2}) of x [B, heads, T, D] by its angle."""
    cos, sin = (part[:, None] for part in rotary)  # [B, 1, T, D]
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin
