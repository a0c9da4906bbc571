"""Medusa's heads: each looks one token further ahead than the one before it (arXiv:2401.10774).

The target's own output head turns its final normed hidden state at position p into the law of token
p+1. Medusa head i, counted from 0, does the same for token p+2+i, from that one hidden state alone:

    x = x + silu(W x + b)      as often as the head has layers; W and b start at zero, x at itself
    logits = lm_head(x)        a matrix of the head's own, which starts as the target's

No head sees what another says, nor which token p+1 became: what they draft are marginals.
Parameters are named as in the published `medusa_lm_head.pt`: head i's layer l is `{i}.{l}.linear`,
its output matrix `{i}.{number of layers}`.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class MedusaConfig:
    """The shape of the heads.

    fc_bias           whether the residual layers have a bias b
    draft_vocab_size  rows of the output matrices, where a token map says which tokens they are
    claimed_heads     what a checkpoint's config.json says of the heads, where it holds another number
    """

    hidden_size: int
    vocab_size: int
    num_heads: int
    num_layers: int = 1
    fc_bias: bool = True
    draft_vocab_size: int | None = None
    claimed_heads: int | None = None


class MedusaHeads(nn.ModuleList):
    """All heads of a target; `config` is kept beside the weights."""

    token_map: Tensor | None

    def __init__(self, config: MedusaConfig, token_map: Tensor | None = None) -> None:
        """Build heads of `config`; `token_map` [draft_vocab_size] int64 are their rows' tokens."""
        hidden, rows = config.hidden_size, config.draft_vocab_size or config.vocab_size
        super().__init__(
            nn.Sequential(
                *(ResBlock(hidden, config.fc_bias) for _ in range(config.num_layers)),
                nn.Linear(hidden, rows, bias=False),
            )
            for _ in range(config.num_heads)
        )
        self.config = config
        self.register_buffer("token_map", token_map, persistent=False)

    def forward(self, hidden: Tensor, num_heads: int | None = None) -> Tensor:
        """Return logits [..., N, V] of the first N heads, None: of all, for hidden states [..., H].

        A token that no row stands for has logit -inf: it is never drafted.
        """
        logits = torch.stack([head(hidden) for head in list(self)[:num_heads]], dim=-2)
        if self.token_map is None:
            return logits
        shape = (*logits.shape[:-1], self.config.vocab_size)
        return logits.new_full(shape, -torch.inf).index_copy_(-1, self.token_map, logits)


class ResBlock(nn.Module):
    """A residual layer that starts as the identity: x + silu(W x + b)."""

    def __init__(self, hidden_size: int, bias: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden_size, hidden_size, bias=bias)
        for parameter in self.linear.parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        return x + F.silu(self.linear(x))
