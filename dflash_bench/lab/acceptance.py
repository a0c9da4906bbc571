"""How many tokens a drafter gets accepted on held-out prompts, by family, setting and temperature.

Measured through the engine's own loop against the target's plain outputs, which must come out identical.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dflash_bench.engine.loop import Admitted, generate
from dflash_bench.engine.methods.base import Drafter
from dflash_bench.engine.sampling import Sampling
from dflash_bench.engine.target import Target
from dflash_bench.lab.outputs import MAX_NEW_TOKENS, SEED, Output, to_requests

BATCH_SIZE = 16


class Acceptance(NamedTuple):
    """Pooled over the steps of one family: tau = committed / steps, bonus included, the prefill's token not.

    `label` names the drafter's setting, such as `block 8`.
    """

    family: str
    temperature: float
    label: str
    committed: int
    steps: int
    identical: int
    compared: int

    @property
    def tau(self) -> float:
        """Acceptance length in tokens per verify step; 0 when nothing was drafted."""
        return self.committed / self.steps if self.steps else 0.0


def measure(
    target: Target,
    drafter: Drafter,
    reference: Sequence[Output],
    *,
    label: str,
    max_new_tokens: int = MAX_NEW_TOKENS,
) -> list[Acceptance]:
    """Answer the prompts of `reference` (one temperature, numbered alike) again, drafting, and compare."""
    temperature = reference[0].temperature
    requests = to_requests([r.prompt for r in reference], target.eos_ids, max_new_tokens)
    texts: list[list[int]] = [[] for _ in reference]
    steps = [0] * len(reference)
    sampling = Sampling(temperature=temperature, seed=SEED)
    for event in generate(target, drafter, requests, batch_size=BATCH_SIZE, sampling=sampling):
        if isinstance(event, Admitted):
            texts[int(event.request_id)].append(event.first_token)
            continue
        for row in event.rows:
            texts[int(row.request_id)] += row.tokens
            steps[int(row.request_id)] += 1
    found = []
    for family in dict.fromkeys(r.family for r in reference):
        members = [i for i, r in enumerate(reference) if r.family == family]
        found.append(
            Acceptance(
                family=family,
                temperature=temperature,
                label=label,
                committed=sum(len(texts[i]) - 1 for i in members),
                steps=sum(steps[i] for i in members),
                identical=sum(texts[i] == reference[i].output for i in members),
                compared=len(members),
            )
        )
    return found
