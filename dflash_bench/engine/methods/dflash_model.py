"""The DFlash draft network: a few decoder layers that fill a block of masks in one parallel pass.

Block diffusion for speculative decoding (arXiv:2602.06036, section 4 and appendix A.3). As a rule the
network has no embedding and no output head of its own: both are the target's, frozen. What it knows of
the text it reads from the target's hidden features, *injected as keys and values into every layer*:

    c = hidden_norm(fc(concatenated target features))    once per committed token, for all layers
    x = x + Attention(input_layernorm(x), context=c)     keys, values from [c ; x], queries from x
    x = x + MLP(post_attention_layernorm(x))
    hidden = norm(x)                                     logits = target.lm_head(hidden)

The block attends to its context and to itself, as each layer's mask says (`dflash_attention`). Slot j
predicts the token at its *own* position. Context and block share k_proj and v_proj; c is not normed
again per layer. DFlash2 mixes neighbours around each sublayer (`dflash_second`).

Shapes: B rows, Q block tokens, S context tokens, H hidden, D head, m features per token.
Parameters are named as in published checkpoints: fc.weight, layers.0.self_attn.q_proj.weight, ...
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dflash_bench.engine.methods.dflash_second import CandidateSelector, GroupedConvolution
from dflash_bench.engine.methods.dflash_shape import DFlashConfig
from dflash_bench.engine.rope import Rotary, inverse_frequencies, rotate, tables

KeysValues = tuple[Tensor, Tensor]  # each [B, Hkv, T, D]

Extend = Callable[[Tensor, Tensor, int], KeysValues]
"""(the block's keys, its values, layer) -> the keys and values that the block may look at.

It joins the block to its context: by a concatenation in training, by a cache when decoding.
"""


class RMSNorm(nn.RMSNorm):
    """Torch's, with the name that Hugging Face's has for eps."""

    @property
    def variance_epsilon(self) -> float:
        """What is added to the mean square."""
        return cast("float", self.eps)


class DFlashModel(nn.Module):
    """The draft network; `config` is kept beside the weights, since neither means much alone."""

    d2t: Tensor  # [V'] where the drafter's own vocabulary is smaller: the offsets of its ids

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__()
        self.config = config
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.fc = nn.Linear(len(config.target_layer_ids) * hidden, hidden, bias=False)
        self.hidden_norm = RMSNorm(hidden, eps=eps)
        self.layers = nn.ModuleList(DFlashLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(hidden, eps=eps)
        if config.second is not None:
            self.candidate_selector = CandidateSelector(hidden, config.vocab_size, config.second)
        if config.noise_scale is not None:  # reads (signal, noise); see `dflash_noise`
            self.noise_level = nn.Linear(2, hidden, bias=False)
        if config.own_embeddings:
            self.embed_tokens = nn.Embedding(config.vocab_size, hidden)
        if config.draft_vocab_size is not None:
            self.lm_head = nn.Linear(hidden, config.draft_vocab_size, bias=False)
            if config.draft_vocab_size != config.vocab_size:
                none = torch.zeros(config.draft_vocab_size, dtype=torch.int64)
                self.register_buffer("d2t", none)

    def forward(
        self,
        block_embeddings: Tensor,
        block_positions: Tensor,
        context_features: Tensor,
        context_positions: Tensor,
        mask: Tensor | None,
    ) -> Tensor:
        """Run blocks against an uncached context: the whole network in one call, for training.

        Several blocks may lie side by side in Q; `mask` says who sees whom, in all layers alike.

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

        masks = [mask] * self.config.num_hidden_layers
        return self.denoise(block_embeddings, block_positions, masks, extend)

    def context_keys_values(self, features: Tensor, positions: Tensor) -> list[KeysValues]:
        """Project target features [B, S, m*H] to each layer's keys and values [B, Hkv, S, D]."""
        context = self.hidden_norm(self.fc(features))  # [B, S, H]
        rotary = self.rotary(positions, context.dtype)
        return [layer.self_attn.keys_values(context, rotary) for layer in self._layers()]

    def denoise(
        self, block: Tensor, positions: Tensor, masks: Sequence[Tensor | None], extend: Extend
    ) -> Tensor:
        """Run block embeddings [B, Q, H] through all layers, each with its mask, to hidden [B, Q, H]."""
        rotary = self.rotary(positions, block.dtype)
        for index, layer in enumerate(self._layers()):
            block = layer(block, rotary, masks[index], index, extend)
        hidden: Tensor = self.norm(block)
        return hidden

    def rotary(self, positions: Tensor, dtype: torch.dtype) -> Rotary:
        """Return the tables [B, 1, T, D] of rotary position embedding at `positions` [B, T]."""
        inv_freq, scaling = self._frequencies
        return tables(positions[:, None], inv_freq.to(positions.device), scaling, dtype)

    @cached_property
    def _frequencies(self) -> tuple[Tensor, float]:
        """Not a buffer: checkpoints do not hold it, and it is the same in every dtype."""
        config = self.config
        longest = config.max_position_embeddings or 1  # plain RoPE does not depend on it
        return inverse_frequencies(config.rope_parameters, config.head_dim, longest)

    def _layers(self) -> "Iterator[DFlashLayer]":
        return cast("Iterator[DFlashLayer]", iter(self.layers))


class DFlashLayer(nn.Module):
    """A pre-norm decoder layer of Qwen3's form, whose attention also sees the injected context."""

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__()
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.input_layernorm = RMSNorm(hidden, eps=eps)
        self.self_attn = DFlashAttention(config)
        self.post_attention_layernorm = RMSNorm(hidden, eps=eps)
        self.mlp = DFlashMLP(hidden, config.intermediate_size)
        if config.second is not None:
            self.attention_conv = GroupedConvolution(hidden, config.second)
            self.mlp_conv = GroupedConvolution(hidden, config.second)
        self.mixes = config.second is not None

    def forward(
        self, x: Tensor, rotary: Rotary, mask: Tensor | None, index: int, extend: Extend
    ) -> Tensor:
        def attend(normed: Tensor) -> Tensor:
            keys, values = extend(*self.self_attn.keys_values(normed, rotary), index)
            attended: Tensor = self.self_attn(normed, rotary, keys, values, mask)
            return attended

        normed = self.input_layernorm(x)  # [B, Q, H]
        x = x + (mixed(attend, normed, self.attention_conv) if self.mixes else attend(normed))
        normed = self.post_attention_layernorm(x)
        out: Tensor = x + (
            mixed(self.mlp, normed, self.mlp_conv) if self.mixes else self.mlp(normed)
        )
        return out


def mixed(sublayer: Callable[[Tensor], Tensor], x: Tensor, around: GroupedConvolution) -> Tensor:
    """Run a sublayer between the two convolutions `around` it, whose kernels x [B, Q, H] asks for."""
    kernels = around.kernels(x)
    return around.way_out(sublayer(around.way_in(x, kernels)), kernels)


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
        self.q_norm = RMSNorm(self.head_dim, eps=config.rms_norm_eps)
        self.k_norm = RMSNorm(self.head_dim, eps=config.rms_norm_eps)

    def keys_values(self, x: Tensor, rotary: Rotary) -> KeysValues:
        """Project x [B, T, H], context or block, to rotated keys and values [B, Hkv, T, D]."""
        keys = self.k_norm(self._heads(self.k_proj(x)))
        return rotate(keys.transpose(1, 2), rotary), self._heads(self.v_proj(x)).transpose(1, 2)

    def forward(
        self, x: Tensor, rotary: Rotary, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> Tensor:
        queries = self.q_norm(self._heads(self.q_proj(x))).transpose(1, 2)  # [B, Hq, Q, D]
        grouped = queries.shape[1] != keys.shape[1]
        attended = F.scaled_dot_product_attention(
            rotate(queries, rotary), keys, values, attn_mask=mask, enable_gqa=grouped
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
