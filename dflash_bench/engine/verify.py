"""Which drafted tokens stand, and what the target says after the last of them.

match    the target chooses a token after every node of the block, greedily or by sampling, and a
         draft is accepted if it is the choice after its parent, which is accepted itself. Every
         committed token is the target's own given the tokens before it: the text is that of plain
         decoding, whatever was drafted
reject   a draft stands with a probability that makes good the difference between the drafter's law
         and the target's (`reject`): the law of the text is that of plain decoding
typical  a draft stands if the target finds it probable enough (`typical`). LOSSY: the text has a law
         of its own

At temperature 0, and where nothing was drafted, all three are `match`.
"""

from typing import Literal

from torch import Tensor

from dflash_bench.engine.draft import Accepted, Anchors, Draft, path, standing
from dflash_bench.engine.reject import reject
from dflash_bench.engine.sampling import Sampling, choose, law
from dflash_bench.engine.typical import typical

Rule = Literal["match", "reject", "typical"]
LOSSY_RULES: frozenset[Rule] = frozenset({"typical"})


def verify(
    draft: Draft, logits: Tensor, anchors: Anchors, sampling: Sampling, rule: Rule = "match"
) -> Accepted:
    """Judge drafts [A, N] by the target's logits [A, N+1, V] of their blocks, penalties in them."""
    positions, keys = places(draft, anchors), anchors.keys
    if rule == "match" or sampling.temperature == 0.0 or draft.tokens.shape[1] == 0:
        return match(draft, choose(logits, positions, keys, sampling))
    judge = reject if rule == "reject" else typical
    return judge(draft, law(logits, sampling), positions, keys, sampling.seed)


def places(draft: Draft, anchors: Anchors) -> Tensor:
    """Return the position [A, N+1] of the token to be chosen after each node of the block."""
    return anchors.starts[:, None] + draft.depths() + 1


def match(draft: Draft, chosen: Tensor) -> Accepted:
    """Accept the drafts that equal the target's choices; `chosen` [A, N+1] are those after each node."""
    # Siblings differ, so that what stands is one path.
    stands = standing(draft, draft.tokens == draft.of_parents(chosen))
    nodes, counts = path(draft, stands)
    return Accepted(nodes, chosen.gather(1, nodes), counts)
