"""The loop: draft a block, verify it in one pass of the target, commit what stands.

    draft    = drafter.draft_block(...)     K-1 tokens per row, a chain or a tree; none at all for AR
    verdict  = target.verify_block(...)     one pass over [pending, d1, .., dK-1]
    accepted = verify(draft, verdict, ...)  the path of drafts that stands, and the target's tokens
    commit                                  per row: those, the last of them being the next pending

One committed token, `pending`, is always missing from the target's cache; it leads the next
block. Every row commits on its own. A finished row leaves at once and the next request takes its
place. The loop carries no clock: whoever measures, times the events and the verbs from outside.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dflash_bench.engine.draft import Anchors
from dflash_bench.engine.methods.base import Committed, Drafter
from dflash_bench.engine.penalties import Penalties
from dflash_bench.engine.request import Request
from dflash_bench.engine.sampling import Sampling, choose
from dflash_bench.engine.state import Finish, Slot
from dflash_bench.engine.target import Verdict
from dflash_bench.engine.verify import Rule, verify
from dflash_bench.errors import ConfigError


@dataclass(frozen=True)
class Admitted:
    """A request entered a slot and was prefilled, which gave its first token.

    `active` counts the slots in use meanwhile, its own among them.
    """

    request_id: str
    first_token: int
    finished: Finish | None
    active: int


@dataclass(frozen=True)
class RowStep:
    """What one step gave one request, after the cut at the end of its text.

    The target's pass had `scheduled` tokens of this row: the anchor, the `drafted` ones, and padding
    where other rows drafted more; a path through its drafts has `depth` of them at most. `tokens`
    were committed, `cut` were dropped behind the end. Always `accepted = len(tokens) - 1`: the last
    token of a step counts as the target's own, also where the cut fell among the drafts.
    """

    request_id: str
    scheduled: int
    drafted: int
    depth: int
    accepted: int
    tokens: tuple[int, ...]
    cut: int
    finished: Finish | None


@dataclass(frozen=True)
class Step:
    """One draft-verify-commit cycle of all active rows."""

    rows: tuple[RowStep, ...]


Event = Admitted | Step


class Verifier(Protocol):
    """What the loop asks of a target."""

    @property
    def device(self) -> torch.device: ...
    @property
    def max_positions(self) -> int: ...
    def reserve(self, rows: int, max_length: int, taps: tuple[int, ...] = ()) -> None: ...
    def prefill(self, row: int, prompt: Sequence[int]) -> Verdict: ...
    def verify_block(
        self, tokens: Tensor, lengths: Sequence[int], parents: Tensor | None = None
    ) -> Verdict: ...
    def commit(self, nodes: Tensor, lengths: Sequence[int]) -> None: ...
    def move_row(self, source: int, destination: int) -> None: ...


def generate(
    target: Verifier,
    drafter: Drafter,
    requests: Sequence[Request],
    *,
    batch_size: int,
    sampling: Sampling,
    rule: Rule = "match",
) -> Iterator[Event]:
    """Answer all requests, at most `batch_size` at a time, and yield what happens as it happens.

    Raises ConfigError, before anything runs, for a request that cannot fit the target.
    """
    if batch_size < 1:
        raise ConfigError(f"batch_size is {batch_size}.", remedy="It must be at least 1.")
    ids = [request.id for request in requests]
    if len(set(ids)) < len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise ConfigError(f"Two requests have the id {twice}.", remedy="Give each its own id.")
    for request in requests:
        _check(request, target.max_positions)
    return _run(target, drafter, requests, batch_size, sampling, rule)


@torch.inference_mode()
def _run(
    target: Verifier,
    drafter: Drafter,
    requests: Sequence[Request],
    batch_size: int,
    sampling: Sampling,
    rule: Rule,
) -> Iterator[Event]:
    # A block keeps its width up to the last one, which may reach beyond the end of its text.
    longest = max((len(r.prompt) + r.max_new_tokens for r in requests), default=0)
    rows = min(batch_size, len(requests))
    target.reserve(rows, longest + drafter.block_size, drafter.taps)
    drafter.reserve(rows, longest + drafter.block_size)
    penalties = Penalties(sampling, rows)
    queue, batch = deque(requests), list[Slot]()
    while queue or batch:
        for row in range(batch_size):
            while queue and (row == len(batch) or batch[row].finished):
                batch[row : row + 1] = [Slot(queue.popleft())]
                yield _admit(batch, row, target, drafter, sampling, penalties)
        _pack(batch, target, drafter, penalties)
        if batch:
            yield _step(batch, target, drafter, sampling, penalties, rule)


def _admit(
    batch: list[Slot],
    row: int,
    target: Verifier,
    drafter: Drafter,
    sampling: Sampling,
    penalties: Penalties,
) -> Admitted:
    """Prefill the request of `row`: the target reads its prompt and chooses its first token."""
    slot = batch[row]
    request = slot.request
    verdict = target.prefill(row, request.prompt)
    place = torch.tensor([[len(request.prompt)], [request.key]], device=target.device)  # [2, 1]
    logits = penalties.admit(row, request.prompt, verdict.logits)
    first = int(choose(logits, place[:1], place[1], sampling))
    slot.commit([first])
    penalties.commit([[first]], row)
    if not slot.finished:
        drafter.admit(row, (*request.prompt, first), verdict.features)
    active = sum(not other.finished for other in batch if other is not slot) + 1
    return Admitted(request.id, first, slot.finished, active)


def _step(
    batch: list[Slot],
    target: Verifier,
    drafter: Drafter,
    sampling: Sampling,
    penalties: Penalties,
    rule: Rule,
) -> Step:
    """Draft, verify and commit one block of every row of `batch`."""
    lengths = [slot.length for slot in batch]
    columns = [[slot.pending for slot in batch], lengths, [slot.request.key for slot in batch]]
    pending, starts, keys = torch.tensor(columns).to(target.device, non_blocking=True)  # [A] each
    law = sampling if rule == "reject" and sampling.temperature > 0 else None
    anchors = Anchors(pending, lengths, starts, keys, law)

    draft = drafter.draft_block(anchors)
    block = torch.cat((pending[:, None], draft.tokens), dim=1)  # [A, K]
    verdict = target.verify_block(block, lengths, draft.parents)
    logits = penalties.apply(draft, verdict.logits)
    accepted = verify(draft, logits, anchors, sampling, rule)
    features = verdict.features
    if draft.parents is not None:
        target.commit(accepted.nodes, lengths)
        features = features.take_along_dim(accepted.nodes[..., None], dim=1)

    width = block.shape[1]
    table = torch.column_stack((accepted.counts, accepted.tokens)).tolist()  # waits for the device
    rows = tuple(
        _commit(slot, width, extent, tokens[: count + 1])
        for slot, extent, (count, *tokens) in zip(batch, draft.extents(), table, strict=True)
    )
    committed = [row.tokens for row in rows]
    penalties.commit(committed)
    drafter.commit(Committed(lengths, committed, features))
    return Step(rows)


def _commit(slot: Slot, scheduled: int, extent: tuple[int, int], burst: list[int]) -> RowStep:
    tokens = slot.commit(burst)
    return RowStep(
        request_id=slot.request.id,
        scheduled=scheduled,
        drafted=extent[0],
        depth=extent[1],
        accepted=len(tokens) - 1,
        tokens=tokens,
        cut=len(burst) - len(tokens),
        finished=slot.finished,
    )


def _pack(batch: list[Slot], target: Verifier, drafter: Drafter, penalties: Penalties) -> None:
    """Drop finished rows, and move the last rows into the gaps."""
    for row in reversed(range(len(batch))):
        if batch[row].finished:
            last = batch.pop()
            if row < len(batch):
                batch[row] = last
                target.move_row(len(batch), row)
                drafter.move_row(len(batch), row)
                penalties.move_row(len(batch), row)


def _check(request: Request, max_positions: int) -> None:
    prompt, asked = len(request.prompt), request.max_new_tokens
    if prompt < 1 or asked < 1:
        raise ConfigError(
            f"Request {request.id} has {prompt} prompt tokens and asks for {asked} new ones.",
            remedy="Both must be at least 1.",
        )
    if prompt + asked > max_positions:
        raise ConfigError(
            f"Request {request.id} needs {prompt + asked} positions, {prompt} of them for its prompt"
            f" and {asked} for max_new_tokens, but the target has {max_positions}.",
            remedy="Shorten the prompt or context_length, or lower max_new_tokens.",
        )
