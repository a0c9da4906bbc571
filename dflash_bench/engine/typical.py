"""Typical acceptance: a draft stands if the target finds it probable enough. LOSSY.

A draft d passes if p(d) > min(epsilon, alpha * exp(-H(p))), with p the target's law after its parent and
H its entropy: where the target is undecided, less is asked (Medusa, arXiv:2401.10774, section 2.3.1;
the constants are its code's: posterior_threshold 0.09, posterior_alpha 0.3). The longest path of
passing drafts stands, among equals the more probable one, and the target's sample follows it.

A draft that the target would choose one time in ten is taken every time it is drafted: the text does not
have the target's law, and no measurement with this rule is one of lossless speculation.
"""

import torch
from torch import Tensor

from dflash_bench.engine.draft import Accepted, Draft, depths, ending, standing
from dflash_bench.engine.sampling import draw

EPSILON, ALPHA = 0.09, 0.3


def typical(draft: Draft, laws: Tensor, positions: Tensor, keys: Tensor, seed: int) -> Accepted:
    """Accept the longest typical path of drafts [A, N], N >= 1.

    laws       [A, N+1, V] float64, the target's law after each node of the block
    positions  [A, N+1] int64, where the token after each node will stand
    keys       [A] int64, the requests' noise counters
    """
    rows = torch.arange(len(laws), device=laws.device)
    p = laws[rows[:, None], draft.followed(), draft.tokens]  # [A, N]
    bound = (ALPHA * torch.special.entr(laws).sum(-1).neg().exp()).clamp(max=EPSILON)  # [A, N+1]
    stands = standing(draft, p > draft.of_parents(bound))

    family = draft.family()
    depth = torch.where(stands, depths(family), -1)
    longest = depth == depth.amax(1, keepdim=True)
    gains = torch.cat((p.new_zeros(len(p), 1), p.log()), 1)  # the anchor is no guess
    likelihood = torch.where(family, gains[:, None], 0.0).sum(-1)
    best = torch.where(longest, likelihood, float("-inf")).argmax(1)  # [A]
    last = draw(laws[rows, best], positions[rows, best][:, None], keys, seed)
    return ending(draft, family[rows, best], last)
