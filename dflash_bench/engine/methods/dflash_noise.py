"""Gaussian noise in embedding space: the other diffusion that is told of under DFlash's name.

DFlash itself masks. Some descriptions of it speak of noise instead: slots start as Gaussian noise, and
every step predicts the clean embeddings and mixes them with less noise, as in continuous diffusion of
text (Diffusion-LM, arXiv:2205.14217). At time u, from 1 (noise) to 0 (text), a slot is

    x = signal(u) * embedding + noise(u) * scale * z,    z ~ N(0, I),    signal^2 + noise^2 = 1

    cosine  signal = cos(pi u / 2)     (arXiv:2102.09672, without its offset)
    linear  signal = sqrt(1 - u)       (the share of signal falls linearly)

`scale` is the root mean square of the target's embedding, so that text and noise are equally loud. The
network is told (signal, noise) by a learned direction for each. The anchor is text: (1, 0).
"""

import math
from typing import Literal

import torch
from torch import Tensor

from dflash_bench.engine.noise import DENOISE, uniform

Schedule = Literal["cosine", "linear"]
SCHEDULES: tuple[Schedule, ...] = ("cosine", "linear")


def times(steps: int) -> list[float]:
    """Return the times at which a network is asked, from pure noise on: 1, 1 - 1/steps, ..., 1/steps."""
    return [1 - step / steps for step in range(steps)]


def amplitudes(schedule: Schedule, time: Tensor) -> Tensor:
    """Return (signal, noise) [..., 2] at `time` [...], each in 0..1."""
    if schedule == "cosine":
        angle = time * (math.pi / 2)
        return torch.stack((angle.cos(), angle.sin()), -1)
    return torch.stack(((1 - time).sqrt(), time.sqrt()), -1)


def mix(clean: Tensor, noise: Tensor, levels: Tensor, scale: float) -> Tensor:
    """Mix embeddings [..., H] with standard noise of that shape, at `levels` [..., 2]."""
    signal, loudness = levels[..., :1], levels[..., 1:]
    return signal * clean + (loudness * scale) * noise


def gaussian(positions: Tensor, keys: Tensor, step: int, hidden_size: int) -> Tensor:
    """Return standard normal noise [B, K, H], float32, for slots at `positions` [B, K] in a step.

    By counter: a pure function of the request's key [B], the position, the step and the coordinate, so
    that a row drafts the same in whatever batch. By the inverse of the normal distribution function.
    """
    drawn = uniform(positions, keys, step, hidden_size, DENOISE)
    normal: Tensor = torch.special.ndtri(drawn)
    return normal.float()
