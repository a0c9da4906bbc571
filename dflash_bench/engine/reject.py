"""Rejection sampling: drafts drawn from a law q become a text of the target's law p.

A draft d stands with probability min(1, p(d) / q(d)). If it falls, the token in its place has to come
from what q leaves of p, the residual norm(max(p - q, 0)): then a token has law p however it came about
(Leviathan et al., arXiv:2211.17192; Chen et al., arXiv:2302.01318). In a tree the residual is judge of
the next sibling, round after round, and what is left of it after the last one is sampled (SpecInfer,
arXiv:2305.09781). A chain is a tree of only children; a draft that was chosen and not drawn has the
point mass on itself for q, which stands with probability p(d) and leaves p without d.

The proof goes node by node, given the path so far. So q must be the law from which a node's token was
really drawn given its parent and the siblings before it, and tokens drawn independently of one another
from marginals, as a block drafter's are, are as good as any.

It also needs chance that is fresh whenever it is consulted. The noise here is a function of (stream,
request, position, token), and a position is *decided* once: a step decides the position after each node
of its path and the next step starts behind them. In one step, the tests at a position are those of the
accepted node's children: different tokens, so different numbers of stream ACCEPT; the token that
replaces them all takes that position's noise of stream TARGET, whose only use this is. Positions
behind the path are drafted anew, with the same noise of stream DRAFT as before: but what was drafted
there the first time has decided nothing, neither the committed text nor where the step ended, so that
given the text the second draft still has its law q.
"""

import torch
from torch import Tensor

from dflash_bench.engine.draft import Accepted, Draft, ending, standing
from dflash_bench.engine.noise import ACCEPT, uniform_of
from dflash_bench.engine.sampling import draw


def reject(draft: Draft, laws: Tensor, positions: Tensor, keys: Tensor, seed: int) -> Accepted:
    """Accept drafts [A, N], N >= 1, with the probabilities that keep the target's law.

    laws       [A, N+1, V] float64, the target's law after each node of the block
    positions  [A, N+1] int64, where the token after each node will stand
    keys       [A] int64, the requests' noise counters
    """
    tested = positions[:, 1:] - 1  # a draft stands one before the token after it
    coins = uniform_of(draft.tokens[..., None], tested, keys, seed, ACCEPT)[..., 0]  # [A, N]
    judge = _chain if draft.parents is None else _tree
    stands, rest = judge(draft, laws, coins)
    end = positions.gather(1, _last(stands)[:, None])
    return ending(draft, stands, draw(rest, end, keys, seed))


def _tree(draft: Draft, laws: Tensor, coins: Tensor) -> tuple[Tensor, Tensor]:
    """Walk each row's path by `coins` [A, N]; return what stands [A, N+1] and the law left [A, V] at its end."""
    parents, offered = draft.followed(), draft.offered()
    at, left = torch.zeros_like(parents[:, 0]), laws[:, 0]
    stands = [torch.ones_like(offered[:, 0])]
    for node in range(1, laws.shape[1]):  # children come after their parent, siblings in order
        asked = offered[:, node - 1] & (parents[:, node - 1] == at)
        token, drawn = draft.tokens[:, node - 1 : node], _drawn(draft, node - 1, left)
        passes = _passes(left.gather(1, token), drawn.gather(1, token), coins[:, node - 1 : node])
        stood = asked & passes[:, 0]
        left = torch.where((asked & ~stood)[:, None], residual(left, drawn), left)
        left = torch.where(stood[:, None], laws[:, node], left)
        at = torch.where(stood, node, at)
        stands.append(stood)
    return torch.stack(stands, 1), left


def _chain(draft: Draft, laws: Tensor, coins: Tensor) -> tuple[Tensor, Tensor]:
    """Do what `_tree` does where no draft has a sibling: all tests at once, and one residual per row."""
    p = _of(draft.tokens, laws[:, :-1])
    q = torch.ones_like(p) if draft.probs is None else _of(draft.tokens, draft.probs)
    stands = standing(draft, _passes(p, q, coins))
    rows, end = torch.arange(len(p), device=p.device), _last(stands)
    left, offered = laws[rows, end], draft.offered()
    # The draft after the path's last node has fallen, if there is one.
    after = end.clamp(max=offered.shape[1] - 1)
    fell = (end < offered.shape[1]) & offered[rows, after]
    return stands, torch.where(fell[:, None], residual(left, _drawn(draft, after, left)), left)


def residual(left: Tensor, drawn: Tensor) -> Tensor:
    """Return norm(max(p - q, 0)) of laws [A, V]; where rounding leaves nothing of it, p itself."""
    rest = (left - drawn).clamp_(min=0.0)
    total = rest.sum(-1, keepdim=True)
    return torch.where(total > 0.0, rest / total, left)


def _passes(p: Tensor, q: Tensor, coins: Tensor) -> Tensor:
    """Tell whether u < p/q, without the division: a token that p forbids never passes.

    Nor does one of q = 0, which nobody can have drawn: a node without a law is a node without effect.
    """
    return (coins * q < p) & (q > 0.0)


def _of(tokens: Tensor, laws: Tensor) -> Tensor:
    """Return the probability [A, N] of each of `tokens` [A, N] in its own one of `laws` [A, N, V]."""
    return laws.gather(2, tokens[..., None])[..., 0].double()


def _drawn(draft: Draft, node: int | Tensor, left: Tensor) -> Tensor:
    """Return the law q, as `left` [A, V], of one draft of each row: draft `node`, or those of indices [A]."""
    rows = torch.arange(len(left), device=left.device)
    if draft.probs is not None:
        return draft.probs[rows, node].double()
    return torch.zeros_like(left).scatter_(1, draft.tokens[rows, node][:, None], 1.0)


def _last(stands: Tensor) -> Tensor:
    """Return the last node [A] that stands: of a path it has the highest index."""
    return (stands * torch.arange(stands.shape[1], device=stands.device)).amax(1)
