"""What a visit asks, and how it is sent: the same for every arm of a round."""

import hashlib
from dataclasses import replace

from dflash_bench.plan import Plan, Visit
from dflash_bench.run.prepare import Asked, Key, key_of
from dflash_bench.runners.base import Load, Request
from dflash_bench.spec import Spec
from dflash_bench.workloads.prompts import Prompt

WARM_UP_TOKENS = 64


class Questions:
    """The requests of each visit."""

    def __init__(self, spec: Spec, plan: Plan, asked: dict[Key, Asked]) -> None:
        self._spec = spec
        self._plan = plan
        self._asked = asked
        self._made: dict[tuple[Key, int], list[Request]] = {}

    def of(self, visit: Visit) -> list[Request]:
        """Return what `visit` asks: everything, or in a discarded round the first `design.warmup_prompts`."""
        cell = self._plan.cells[visit.cell]
        requests = self._all(visit)
        if visit.role != "discard" or self._spec.design.warmup_prompts is None:
            return requests
        return requests[: max(self._spec.design.warmup_prompts, cell.batch_size)]

    def warm_up(self, visit: Visit) -> list[Request]:
        """Return the first `batch_size` requests, short: what wakes an arm before it is measured."""
        first = self._all(visit)[: self._plan.cells[visit.cell].batch_size]
        return [
            replace(request, max_new_tokens=min(request.max_new_tokens, WARM_UP_TOKENS))
            for request in first
        ]

    def prompts(self, visit: Visit) -> dict[str, Prompt]:
        """Return the prompts that `visit` asks, by name."""
        shaped = self._asked[key_of(self._plan.cells[visit.cell])].shaped
        return {prompt.id: prompt for prompt in shaped.prompts}

    def positions(self, visit: Visit) -> int:
        """Return the tokens of the longest prompt with its answer."""
        return max(len(request.prompt) + request.max_new_tokens for request in self._all(visit))

    def load(self, visit: Visit) -> Load:
        """Return how requests are sent; arrivals of an open loop depend on the cell and the round, not on the arm."""
        cell = self._plan.cells[visit.cell]
        named = f"{self._spec.design.seed}/{visit.cell}/{visit.round}"
        return Load(
            batch_size=cell.batch_size,
            temperature=cell.temperature,
            request_rate=cell.request_rate,
            burstiness=self._spec.load.burstiness,
            seed=int.from_bytes(hashlib.sha256(named.encode()).digest()[:4], "big"),
        )

    def _all(self, visit: Visit) -> list[Request]:
        cell = self._plan.cells[visit.cell]
        tokens = cell.max_new_tokens or self._spec.sampling.max_new_tokens
        key = key_of(cell)
        if (key, tokens) not in self._made:
            self._made[key, tokens] = self._asked[key].requests(tokens)
        return self._made[key, tokens]
