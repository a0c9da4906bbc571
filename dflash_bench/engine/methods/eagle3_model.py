"""The EAGLE-3 draft network: one decoder layer that continues the target's hidden features (arXiv:2503.01840).

It says the next token from two things, joined: the embedding of a token, and a *feature* of the token
before it. Where the target has seen that token the feature is fused from three of its layers; beyond,
the network goes on with its own output, so that any number of tokens can be drafted:

    g = fc(low, middle, high features)           fuse: the feature of a token that the target has seen
    x = [input_layernorm(embedding) ; hidden_norm(g)]
    g = g + attention(x)                         queries, keys and values from 2H
    g = g + mlp(post_attention_layernorm(g))     the feature of the next token
    logits = lm_head(norm(g))                    over a vocabulary of the drafter's own, often smaller

Entry i of a sequence holds the feature of token i and the embedding of token i+1; it stands at rotary
position i and predicts token i+2. Queries, keys and values are one matrix here, and so are the MLP's
gate and up projections: one product is dispatched instead of three.

Shapes: A rows, Q entries of each, H hidden, D head, Hq query heads in Hkv groups, V' draft vocabulary.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dflash_bench.engine.rope import Rotary, inverse_frequencies, rotate, tables

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(queries [A, Q, Hq, D], keys and values [A, Q, Hkv, D] of the same entries) -> attended [A, Q, Hq*D].

It knows which earlier entries there are and who sees whom: a cache when decoding, a mask in training.
"""


@dataclass(frozen=True)
class Eagle3Config:
    """The draft network's shape, and how it is tied to its target.

    target_hidden_size    width of each tapped feature
    draft_vocab_size      the tokens that can be drafted; below `vocab_size` a map `d2t` says which
    taps                  target layers whose *output* is read, from 0; None: layers 1, n/2-1 and n-4
    norm_before_residual  the layer adds to the normed feature instead of the feature itself
    norm_before_fc        one norm over the joined taps, before they are fused
    fc_norm               one norm for each tap, before they are fused
    norm_output           the normed output is the next feature, instead of the output itself
    own_embeddings        embeds tokens itself instead of borrowing the target's embedding
    """

    hidden_size: int
    target_hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    draft_vocab_size: int
    rms_norm_eps: float
    rope_parameters: Mapping[str, Any]
    max_position_embeddings: int
    num_taps: int = 3
    taps: tuple[int, ...] | None = None
    attention_bias: bool = False
    norm_before_residual: bool = False
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool = False
    own_embeddings: bool = False


class Eagle3Model(nn.Module):
    """The draft network with its output head, and the map from its vocabulary to the target's."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.config = config
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.fc = nn.Linear(config.num_taps * config.target_hidden_size, hidden, bias=False)
        if config.norm_before_fc:
            self.input_norm = nn.RMSNorm(config.num_taps * config.target_hidden_size, eps=eps)
        if config.fc_norm:
            norms = (nn.RMSNorm(config.target_hidden_size, eps=eps) for _ in range(config.num_taps))
            self.fc_norm = nn.ModuleList(norms)
        self.midlayer = Eagle3Layer(config)
        self.norm = nn.RMSNorm(hidden, eps=eps)
        self.lm_head = nn.Linear(hidden, config.draft_vocab_size, bias=False)
        if config.own_embeddings:
            self.embed_tokens = nn.Embedding(config.vocab_size, hidden)
        self.d2t: Tensor
        self.register_buffer("d2t", torch.zeros(config.draft_vocab_size, dtype=torch.int64))
        # A tensor and no buffer: a cast of the weights to bf16 would cast a buffer too.
        self._inv_freq, self._rope_scaling = inverse_frequencies(
            config.rope_parameters, config.head_dim, config.max_position_embeddings
        )

    def fuse(self, features: Tensor) -> Tensor:
        """Fuse the target's features [A, Q, m*Ht] of some tokens to [A, Q, H]."""
        config = self.config
        if config.norm_before_fc:
            features = self.input_norm(features)
        if config.fc_norm:
            parts = features.chunk(config.num_taps, -1)
            features = torch.cat([norm(p) for norm, p in zip(self.fc_norm, parts, strict=True)], -1)
        fused: Tensor = self.fc(features)
        return fused

    def rotary(self, positions: Tensor) -> Rotary:
        """Return the rotary tables [A, Q, 1, D] of positions [A, Q], in the network's dtype."""
        if self._inv_freq.device != positions.device:
            self._inv_freq = self._inv_freq.to(positions.device)
        dtype = self.fc.weight.dtype
        return tables(positions[..., None], self._inv_freq, self._rope_scaling, dtype)

    def forward(self, embeddings: Tensor, hidden: Tensor, rotary: Rotary, attend: Attend) -> Tensor:
        """Turn entries, embeddings and features [A, Q, H], into the next tokens' features [A, Q, H]."""
        output: Tensor = self.midlayer(embeddings, hidden, rotary, attend)
        return self.norm(output) if self.config.norm_output else output

    def logits(self, hidden: Tensor) -> Tensor:
        """Turn features [..., H] into logits [..., V'] of the token after the one they belong to."""
        normed = hidden if self.config.norm_output else self.norm(hidden)
        logits: Tensor = self.lm_head(normed)
        return logits

    def drafted(self) -> Tensor:
        """Return the draft vocabulary [V'] as ids of the target: `d2t` holds the differences."""
        return torch.arange(len(self.d2t), device=self.d2t.device) + self.d2t


class Eagle3Layer(nn.Module):
    """A pre-norm decoder layer of Llama's form, whose attention reads two vectors side by side."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim, self.residual_is_normed = config.head_dim, config.norm_before_residual
        bias, width = config.attention_bias, self.heads * self.head_dim
        self.input_layernorm = nn.RMSNorm(hidden, eps=eps)
        self.hidden_norm = nn.RMSNorm(hidden, eps=eps)
        self.qkv_proj = nn.Linear(2 * hidden, width + 2 * self.kv_heads * self.head_dim, bias=bias)
        self.o_proj = nn.Linear(width, hidden, bias=bias)
        self.post_attention_layernorm = nn.RMSNorm(hidden, eps=eps)
        self.gate_up_proj = nn.Linear(hidden, 2 * config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, hidden, bias=False)

    def forward(self, embeddings: Tensor, hidden: Tensor, rotary: Rotary, attend: Attend) -> Tensor:
        normed = self.hidden_norm(hidden)
        x = normed if self.residual_is_normed else hidden
        joined = torch.cat((self.input_layernorm(embeddings), normed), -1)  # [A, Q, 2H]
        heads = self.qkv_proj(joined).unflatten(-1, (-1, self.head_dim))  # [A, Q, Hq+2Hkv, D]
        turned = rotate(heads[..., : self.heads + self.kv_heads, :], rotary)
        queries, keys = turned.tensor_split((self.heads,), 2)
        x = x + self.o_proj(attend(queries, keys, heads[..., -self.kv_heads :, :]))
        gate, up = self.gate_up_proj(self.post_attention_layernorm(x)).chunk(2, -1)
        out: Tensor = x + self.down_proj(F.silu(gate) * up)
        return out
