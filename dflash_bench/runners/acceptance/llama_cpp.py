"""llama.cpp's numbers of one request: `timings`, as they grow from token to token.

tools/server/server-context.cpp and server-common.cpp (October 2026): `predicted_n` counts tokens, the one that ended
the text included; `draft_n` and `draft_n_accepted` are absent until something was drafted, and count drafts accepted
past the end too. Verify steps are not told. A draft is never longer than the tokens that remain, so nothing runs over
the limit; but a last token may be decoded without a draft, and drafts may run over EOS or a stop.

With `timings_per_token` every token's event carries the running counts, and its step shows in them: a pass with drafts
raises draft_n, all its tokens come with the same counts, and one more such token is a plain pass (on a target whose
memory cannot be rolled back, the replay of a partly accepted draft). Tokens held back for incomplete UTF-8 have no
event, and then only sums are left.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from dflash_bench.records.schema import Acceptance, Steps
from dflash_bench.runners.acceptance.canonical import of_steps, steps_of

SOURCE = "llama.cpp timings"


def of_timings(
    final: Mapping[str, Any], running: Sequence[Mapping[str, Any]], *, hit_limit: bool, drafts: bool
) -> tuple[Acceptance | None, Steps | None]:
    """Return one request's record and its steps, each None where llama.cpp does not tell it.

    `final`: timings of the last event; `running`: of every event that bore a token. `hit_limit`: the text ended at the
    limit of tokens. `drafts`: the server speculates; one that does not has no record.
    """
    if not drafts:
        return None, None
    predicted = int(final["predicted_n"])
    steps = _steps(running, predicted)
    if steps is not None:
        return of_steps(SOURCE, steps), steps
    drafted, accepted = int(final.get("draft_n", 0)), int(final.get("draft_n_accepted", 0))
    overshoot = 0 if hit_limit or accepted == 0 else _overshoot(running, predicted)
    return Acceptance(
        source=SOURCE,
        steps=None if overshoot is None else predicted - 1 - accepted + overshoot,
        drafted=drafted,
        accepted=accepted,
        overshoot=overshoot,
    ), None


def _counts(running: Sequence[Mapping[str, Any]]) -> list[tuple[int, int, int]]:
    """Return tokens, drafts and accepted drafts so far, as each event tells them."""
    return [
        (int(t["predicted_n"]), int(t.get("draft_n", 0)), int(t.get("draft_n_accepted", 0)))
        for t in running
    ]


def _overshoot(running: Sequence[Mapping[str, Any]], predicted: int) -> int | None:
    """Return how many tokens of the last pass were dropped; None if one of them, or the one before, has no event."""
    counts = _counts(running)
    last = [n for n, *rest in counts if rest == list(counts[-1][1:])]
    before = counts[-len(last) - 1] if len(counts) > len(last) else None
    if before is None or [before[0], *last] != list(range(before[0], predicted + 1)):
        return None
    return max(counts[-1][2] - before[2] + 1 - len(last), 0)


def _steps(running: Sequence[Mapping[str, Any]], predicted: int) -> Steps | None:
    """Return the passes in order; None if a token has no event of its own, or the counts fit no order of passes."""
    counts = _counts(running)
    if not counts or [n for n, _, _ in counts] != list(range(1, predicted + 1)):
        return None
    drafted: list[int] = []
    accepted: list[int] = []
    before, kept_before, overshoot = 0, 0, 0
    for (draft_n, kept_n), group in groupby(counts[1:], key=lambda count: count[1:]):
        tokens, new = len(list(group)), kept_n - kept_before
        if draft_n > before:
            overshoot = new + 1 - tokens
            drafted.append(draft_n - before)
            accepted.append(new)
            tokens -= new + 1
        drafted += [0] * tokens
        accepted += [0] * tokens
        before, kept_before = draft_n, kept_n
        if overshoot > 0 and before != counts[-1][1]:
            return None
    return steps_of(drafted, accepted, max(overshoot, 0))
