"""Taps: which hidden states of a network a drafter reads.

Tap i is the output of decoder layer i, counted from 0, the residual stream between two layers. One
more place has a number: what the output head reads, the last layer's output after the final norm.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

FINAL_NORM = -1


def features(taps: tuple[int, ...], tapped: Mapping[int, Tensor], logits: Tensor) -> Tensor:
    """Join what was tapped, [A, Q, H] each, to [A, Q, m*H] in the order of `taps`.

    Without taps the width is 0, and `logits` only tell shape, dtype and device.
    """
    return torch.cat([tapped[i] for i in taps], -1) if taps else logits[..., :0]
