"""From logits to tokens: the argmax, or a sample whose noise depends on nothing but its place.

At temperature T a token is drawn by the Gumbel-max trick: argmax(logits / T + g) with independent
Gumbel noise g has the law softmax(logits / T) (Gumbel 1954; Maddison et al., arXiv:1411.0030). The
noise is *counter-based*: a pure function of (seed, request, position, token), without a generator
that advances. So the token at a position is the same whether it is the only one of its step or one
of a block of sixteen, in whatever batch: AR and every drafter give one and the same text.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

# SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014),
# its constants written as signed 64-bit integers: torch multiplies those, and wraps around.
_GAMMA = 0x9E3779B97F4A7C15 - 2**64
_MIX_1 = 0xBF58476D1CE4E5B9 - 2**64
_MIX_2 = 0x94D049BB133111EB - 2**64


# Noise for different purposes must be independent, so each purpose has a stream of its own.
TARGET, DRAFT, ACCEPT = 0, 1, 2


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen; temperature 0 is greedy, where the seed has no effect."""

    temperature: float = 0.0
    seed: int = 0


def choose(logits: Tensor, positions: Tensor, keys: Tensor, sampling: Sampling) -> Tensor:
    """Choose one token from each row of logits.

    logits     [B, K, V]
    positions  [B, K] int64, where in its sequence the chosen token will stand
    keys       [B] int64, the requests' noise counters

    Returns tokens [B, K] int64.
    """
    if sampling.temperature == 0.0:
        return logits.argmax(-1)
    noise = gumbel(positions, keys, sampling.seed, logits.shape[-1])
    return noise.add_(logits.double() / sampling.temperature).argmax(-1)


def propose(
    logits: Tensor, positions: Tensor, keys: Tensor, sampling: Sampling
) -> tuple[Tensor, Tensor]:
    """Draw draft tokens [B, K] from their own law, and return that law, float64 [B, K, V], as well.

    Shapes as in `choose`; the noise is of another stream than the target's.
    """
    scaled = logits.double() / sampling.temperature
    noise = gumbel(positions, keys, sampling.seed, logits.shape[-1], DRAFT)
    return noise.add_(scaled).argmax(-1), scaled.softmax(-1)


def gumbel(
    positions: Tensor, keys: Tensor, seed: int, vocab_size: int, purpose: int = TARGET
) -> Tensor:
    """Return standard Gumbel noise [B, K, V] in float64 for every token at `positions` [B, K]."""
    return uniform(positions, keys, seed, vocab_size, purpose).log_().neg_().log_().neg_()


def uniform(
    positions: Tensor, keys: Tensor, seed: int, vocab_size: int, purpose: int = TARGET
) -> Tensor:
    """Return uniform noise [B, K, V], each value in the open interval (0, 1), in float64.

    Each (seed, key, position) starts a SplitMix64 stream, whose v-th number belongs to token v.
    """
    root = _signed(seed * _GAMMA + purpose * _MIX_1)
    stream = _mix(_mix(keys + root)[:, None] + positions * _GAMMA)  # [B, K]
    tokens = torch.arange(1, vocab_size + 1, device=positions.device) * _GAMMA  # [V]
    bits = _mix(stream[..., None] + tokens)
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
