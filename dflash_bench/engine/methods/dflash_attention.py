"""Who sees whom in one layer of a DFlash block: all of the context or a window, both directions or one.

The first checkpoints have full attention in both directions. Newer ones let some layers see a window
only, and implementations agreed on a rule for the direction (PyPI's dflash 0.1.0, vLLM): a
configuration's `is_causal` holds for all layers; where it is absent, sliding layers are causal and full
ones are not. A window that is not causal reaches as far ahead as it reaches back.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LayerAttention:
    """What a query at position p sees of a key at position s, both of them in context or block.

    window  |p - s| < window; None: no limit
    causal  s <= p
    """

    window: int | None = None
    causal: bool = False


def visible(attention: LayerAttention, positions: Tensor, view_length: int) -> Tensor:
    """Return which of a cache's slots 0..view_length-1 a block's tokens see: bool [A, K, view_length].

    positions  [A, K] int64, a block's, ascending. Slot = position; beyond a block's last token
               lies what is of no text, and nobody sees it.
    """
    slots = torch.arange(view_length, device=positions.device)
    own = positions[..., None]  # [A, K, 1]
    last = own if attention.causal else positions[:, -1:, None]
    seen = (slots <= last).expand(-1, positions.shape[1], -1)
    if attention.window is None:
        return seen
    seen = seen & (own - slots < attention.window)
    return seen if attention.causal else seen & (slots - own < attention.window)
