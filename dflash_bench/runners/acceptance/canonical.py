"""The arithmetic of the canonical record: what the counts of a backend mean once its bias is undone.

Every decoding pass of the target commits the drafts that it accepted and one token of its own; the prefill commits one
token and is no step. Tokens past EOS, a stop or the limit are committed and dropped. Hence, for requests that ended,

    output tokens - requests = steps + accepted - overshoot        tau = (output tokens - requests) / steps

A backend that counts only passes with drafts, and counts what it drops, leaves two unknowns, `plain_steps` and
`overshoot`, and one equation: `settle` solves it where something else is known, and leaves null what it cannot know.
"""

from collections.abc import Sequence
from itertools import pairwise

from dflash_bench.records.histogram import histogram_of
from dflash_bench.records.schema import Acceptance, Steps


def tau(acceptance: Acceptance, output_tokens: int, requests: int = 1) -> float | None:
    """Return committed tokens per step, the target's own included; None without steps, or where they are not told."""
    return (output_tokens - requests) / acceptance.steps if acceptance.steps else None


def settle(
    source: str,
    *,
    drafts: int,
    drafted: int | None,
    accepted: int,
    output_tokens: int | None,
    requests: int = 1,
    always_drafts: bool,
    last_accepted: int | None = None,
    per_position: Sequence[int] | None = None,
) -> Acceptance:
    """Return the record of `requests` ended requests in which `drafts` passes judged drafts.

    `always_drafts`: every pass of this method has drafts, so that tokens missing from the sum were dropped.
    `last_accepted`: drafts accepted by the last of these passes (of one request); only it can commit past the end.
    Where neither decides, steps, plain_steps and overshoot are null.
    """
    gap = None if output_tokens is None else output_tokens - requests - drafts - accepted
    plain: int | None = None
    if gap is not None and gap >= 0 and (accepted == 0 or last_accepted == 0):
        plain = gap
    elif gap is not None and gap <= 0 and (always_drafts or last_accepted == -gap):
        plain = 0
    steps = None if plain is None else drafts + plain
    return Acceptance(
        source=source,
        steps=steps,
        plain_steps=plain,
        drafted=drafted,
        accepted=accepted,
        overshoot=None if plain is None or gap is None else plain - gap,
        accepted_per_position=None if per_position is None else tuple(per_position),
        histogram=None
        if per_position is None
        else histogram_of(per_position, drafts if steps is None else steps),
    )


def settle_counted(
    source: str,
    *,
    drafts: int,
    drafted: int,
    accepted: int,
    output_tokens: int | None,
    requests: int | None,
    per_position: Sequence[int] | None,
) -> Acceptance:
    """Return the record of what a server counted. One in which every pass judged k drafts is taken to draft always."""
    known = output_tokens is not None and requests is not None
    return settle(
        source,
        drafts=drafts,
        drafted=drafted,
        accepted=accepted,
        output_tokens=output_tokens if known else None,
        requests=requests or 0,
        always_drafts=per_position is not None and drafted == drafts * len(per_position),
        per_position=per_position,
    )


def per_position_of(histogram: Sequence[int]) -> tuple[int, ...]:
    """Return how many steps accepted at least 1, ..., k drafts, from how many accepted exactly 0, ..., k."""
    return tuple(sum(histogram[position:]) for position in range(1, len(histogram)))


def of_steps(source: str, steps: Steps, width: int | None = None) -> Acceptance:
    """Sum one request's steps. `width`: the most drafts of a step; None takes the most seen."""
    accepted = [kept + cut - 1 for kept, cut in zip(steps.committed, steps.cut, strict=True)]
    width = max((*steps.drafted, *accepted, width or 0), default=0)
    per_position = [sum(n > position for n in accepted) for position in range(width)]
    return Acceptance(
        source=source,
        steps=len(accepted),
        plain_steps=sum(drafted == 0 for drafted in steps.drafted),
        drafted=sum(steps.drafted),
        accepted=sum(accepted),
        overshoot=sum(steps.cut),
        accepted_per_position=tuple(per_position),
        histogram=histogram_of(per_position, len(accepted)),
    )


def steps_of(drafted: Sequence[int], accepted: Sequence[int], overshoot: int) -> Steps | None:
    """Return one request's steps, in order; None if its last step cannot have committed `overshoot` tokens too many."""
    if not accepted:
        return Steps(drafted=(), accepted=(), committed=(), cut=()) if overshoot == 0 else None
    if not 0 <= overshoot <= accepted[-1]:
        return None
    kept = [*accepted[:-1], accepted[-1] - overshoot]
    return Steps(
        drafted=tuple(drafted),
        accepted=tuple(kept),
        committed=tuple(n + 1 for n in kept),
        cut=(*(0 for _ in accepted[:-1]), overshoot),
    )


def pooled(source: str, parts: Sequence[Acceptance]) -> Acceptance | None:
    """Return the sum of `parts`, null where any of them is null; None of nothing."""
    if not parts:
        return None

    def total(name: str) -> int | None:
        values = [getattr(part, name) for part in parts]
        return None if None in values else sum(values)

    def totals(name: str) -> tuple[int, ...] | None:
        rows = [getattr(part, name) for part in parts]
        if None in rows:
            return None
        width = max(len(row) for row in rows)
        return tuple(sum(row[i] for row in rows if i < len(row)) for i in range(width))

    counts = {name: total(name) for name in _COUNTS}
    return Acceptance(source=source, **counts, **{name: totals(name) for name in _LISTS})


_COUNTS = ("steps", "plain_steps", "drafted", "accepted", "overshoot")
_LISTS = ("accepted_per_position", "histogram")


def check(acceptance: Acceptance, output_tokens: int | None = None, requests: int = 1) -> list[str]:
    """Return the identities that the record breaks, a sentence each; what is null breaks nothing."""
    a = acceptance
    told = {name: value for name in _COUNTS if (value := getattr(a, name)) is not None}
    broken = [f"{name} is {value}" for name, value in told.items() if value < 0]

    def holds(statement: str, *names: str) -> None:
        """Note `statement`, false, with the numbers of `names`."""
        broken.append(f"not so: {statement} ({', '.join(f'{n} {told[n]}' for n in names)})")

    for less, more in (
        ("plain_steps", "steps"),
        ("accepted", "drafted"),
        ("overshoot", "accepted"),
    ):
        if less in told and more in told and told[less] > told[more]:
            holds(f"{less} <= {more}", less, more)
    if output_tokens is not None and {"steps", "accepted", "overshoot"} <= told.keys():
        said = told["steps"] + told["accepted"] - told["overshoot"]
        if output_tokens - requests != said:
            broken.append(
                f"not so: output tokens - requests = steps + accepted - overshoot"
                f" ({output_tokens} - {requests} against {said})"
            )
    return broken + _broken_lists(a)


def _broken_lists(a: Acceptance) -> list[str]:
    """Return what the per-position counts and the histogram break among themselves and with the sums."""
    broken = []
    if (row := a.accepted_per_position) is not None:
        if any(later > earlier for earlier, later in pairwise(row)):
            broken.append(f"accepted_per_position increases: {list(row)}")
        if a.accepted is not None and sum(row) != a.accepted:
            broken.append(f"accepted_per_position sums to {sum(row)}, accepted is {a.accepted}")
        drafting = None if a.steps is None else a.steps - (a.plain_steps or 0)
        if row and drafting is not None and row[0] > drafting:
            broken.append(f"{row[0]} steps accepted a first draft, and {drafting} had one")
    if (bins := a.histogram) is not None:
        if min(bins, default=0) < 0:
            broken.append(f"the histogram holds a negative count: {list(bins)}")
        if a.steps is not None and sum(bins) != a.steps:
            broken.append(f"the histogram holds {sum(bins)} steps of {a.steps}")
        inside = sum(n * count for n, count in enumerate(bins))
        if a.accepted is not None and inside != a.accepted:
            broken.append(f"the histogram holds {inside} accepted drafts of {a.accepted}")
    return broken
