"""Rotary position embedding: a query or key is turned by angles that grow with its position.

Su et al., arXiv:2104.09864, in the half-split layout of Llama and Qwen: element i of a head's first
half and element i of its second half are one pair, turned by position * inv_freq[i]. The dot product
of a turned query and a turned key depends on the distance of their positions only.

A target and the drafters that read it take their angles from here, and the frequencies (plain, linear,
llama3, YaRN) from transformers, so that no two of them can differ.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

Rotary = tuple[Tensor, Tensor]
"""Cosines and signed sines of some positions, [..., D] each."""


def inverse_frequencies(
    rope_parameters: Mapping[str, Any], head_dim: int, max_positions: int
) -> tuple[Tensor, float]:
    """Return the angles per position, float32 [D/2], and the factor of all cosines and sines.

    `rope_parameters` as in a transformers 5 configuration: rope_type, rope_theta and what the type
    needs. The factor is YaRN's attention temperature (arXiv:2309.00071, section 3.4), else 1.
    """
    config = LlamaConfig(
        hidden_size=head_dim,
        num_attention_heads=1,
        head_dim=head_dim,
        max_position_embeddings=max_positions,
        rope_parameters=dict(rope_parameters),
    )
    rotary: Any = LlamaRotaryEmbedding(config)
    # A copy: transformers has a buffer here, which a module would adopt, and round in its own dtype.
    return rotary.inv_freq.clone(), float(rotary.attention_scaling)


def tables(positions: Tensor, inv_freq: Tensor, scaling: float, dtype: torch.dtype) -> Rotary:
    """Return the cosines and signed sines [..., D] of positions [...], for `rotate`.

    The first half belongs to angles of negative sign: the cosine does not see it, and the sine
    brings the minus of a rotation. Angles are float32: at 40,000 a bf16 angle is off by whole turns.
    """
    angles = positions[..., None] * torch.cat((-inv_freq, inv_freq))
    cos, sin = angles.cos(), angles.sin()
    if scaling != 1.0:
        cos, sin = cos * scaling, sin * scaling
    return cos.to(dtype), sin.to(dtype)


def rotate(x: Tensor, rotary: Rotary) -> Tensor:
    """Turn the pairs (x[i], x[i + D/2]) of x [..., D] by the tables' angles, which broadcast to x."""
    cos, sin = rotary
    return (x * cos).addcmul_(x.roll(x.shape[-1] // 2, -1), sin)
