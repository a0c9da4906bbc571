"""Filling a block in several steps. DFlash takes one; these are the two ways to take more.

*Unmasking* (MaskGIT, arXiv:2202.04200): after each step the slots of which the network is surest keep
their tokens, a share that grows linearly, and the rest are masked again; the last step fills all.

*From noise*: slots start as Gaussian noise in embedding space; after each step they become the expected
embedding of what the network says, mixed with fresh noise at the next, lower level (`dflash_noise`).

Either is deterministic, and so are its drafts: chosen, not drawn from a law that could be told.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from dflash_bench.engine.methods.dflash_noise import Schedule, amplitudes, mix, times

Pass = Callable[[Tensor], Tensor]
"""One pass of the network: block embeddings [A, K, H] -> logits [A, K-1, V] of the slots after the anchor."""


def unmask(predict: Pass, embed: Callable[[Tensor], Tensor], block: Tensor, steps: int) -> Tensor:
    """Fill a block [A, K] of an anchor and masks in `steps` passes; return the drafts [A, K-1]."""
    num_slots = block.shape[1] - 1
    kept = torch.zeros_like(block[:, 1:], dtype=torch.bool)
    masks, tokens = block[:, 1:], block[:, 1:]
    for step in range(1, steps + 1):
        slots = torch.where(kept, tokens, masks)
        probs, guesses = predict(embed(torch.cat((block[:, :1], slots), 1))).softmax(-1).max(-1)
        tokens = torch.where(kept, tokens, guesses)
        sureness = probs.masked_fill(kept, math.inf)  # what is kept stays kept
        share = math.ceil(num_slots * step / steps)
        surest = sureness.argsort(dim=1, descending=True, stable=True)[:, :share]
        kept = torch.zeros_like(kept).scatter_(1, surest, True)
    return tokens


def from_noise(
    predict: Pass,
    anchor: Tensor,
    noise: Callable[[int], Tensor],
    level: Callable[[Tensor], Tensor],
    table: Tensor,
    scale: float,
    schedule: Schedule,
    steps: int,
) -> Tensor:
    """Fill the slots after `anchor` [A, 1, H] (embedded) in `steps` passes; return the drafts [A, K-1].

    noise  standard noise [A, K-1, H] of each step
    level  the direction [.., H] that tells the network a level (signal, noise) [.., 2]
    table  all embeddings [V, H]
    """
    dtype = anchor.dtype
    anchor = anchor + level(torch.tensor([1.0, 0.0], dtype=dtype, device=anchor.device))
    logits, clean = anchor, torch.zeros((), dtype=dtype, device=anchor.device)
    for step, time in enumerate(times(steps)):
        levels = amplitudes(schedule, torch.tensor(time, device=anchor.device)).to(dtype)
        slots = mix(clean, noise(step).to(dtype), levels, scale) + level(levels)
        logits = predict(torch.cat((anchor, slots), 1))
        clean = logits.softmax(-1) @ table
    return logits.argmax(-1)
