"""Noise by counter: a pure function of (seed, request, position, token), without a generator that advances.

So the noise of a token at a position is the same whether its position is the only one of its step or one
of a block of sixteen, in whatever batch, and two runs draw the same text if their laws are the same.
"""

import math

import torch
from torch import Tensor

# SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014),
# its constants written as signed 64-bit integers: torch multiplies those, and wraps around.
_GAMMA = 0x9E3779B97F4A7C15 - 2**64
_MIX_1 = 0xBF58476D1CE4E5B9 - 2**64
_MIX_2 = 0x94D049BB133111EB - 2**64

# Noise for different purposes must be independent, so each purpose has a stream of its own.
TARGET, DRAFT, ACCEPT, DENOISE = 0, 1, 2, 3


def gumbel(
    positions: Tensor, keys: Tensor, seed: int, vocab_size: int, purpose: int = TARGET
) -> Tensor:
    """Return standard Gumbel noise [B, K, V] in float64 for every token at `positions` [B, K]."""
    return uniform(positions, keys, seed, vocab_size, purpose).log_().neg_().log_().neg_()


def uniform(
    positions: Tensor, keys: Tensor, seed: int, vocab_size: int, purpose: int = TARGET
) -> Tensor:
    """Return uniform noise [B, K, V] for every token at `positions` [B, K]; see `uniform_of`."""
    tokens = torch.arange(vocab_size, device=positions.device)
    return uniform_of(tokens, positions, keys, seed, purpose)


def uniform_of(tokens: Tensor, positions: Tensor, keys: Tensor, seed: int, purpose: int) -> Tensor:
    """Return uniform noise [B, K, M] of `tokens` [B, K, M] (or [M]) at `positions` [B, K].

    Each value lies in the open interval (0, 1), in float64; `keys` [B] are the requests' counters.
    Each (seed, key, position) starts a SplitMix64 stream, whose v-th number belongs to token v.
    """
    root = _signed(seed * _GAMMA + purpose * _MIX_1)
    stream = _mix(_mix(keys + root)[:, None] + positions * _GAMMA)  # [B, K]
    bits = _mix(stream[..., None] + (tokens + 1) * _GAMMA)
    # The top 52 bits, centred: with 53 the largest value would round to 1, whose noise is infinite.
    return _shift(bits, 12).double().add_(0.5).mul_(math.ldexp(1.0, -52))


def _mix(x: Tensor) -> Tensor:
    """Scramble fresh 64-bit integers in place: SplitMix64's finaliser, in which every bit counts."""
    x = x.bitwise_xor_(_shift(x, 30)).mul_(_MIX_1)
    x = x.bitwise_xor_(_shift(x, 27)).mul_(_MIX_2)
    return x.bitwise_xor_(_shift(x, 31))


def _shift(x: Tensor, bits: int) -> Tensor:
    """Shift right, filling with zeros: torch's own shift of int64 would drag the sign along."""
    return (x >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def _signed(x: int) -> int:
    """Wrap a Python integer into the signed 64-bit range."""
    return (x + 2**63) % 2**64 - 2**63
