"""Where an answer ends that met a stop string: after the token that completes it, in every arm.

Servers look for stop strings in text, after a step has committed several tokens: what lies behind the string is in the
ids of a drafting arm and not in those of plain decoding (vLLM), or the text ends before the string (most). As in the
reference engine the completing token is the last one here. An answer that shows no ids cannot be mended so: there the
text is the server's.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from dflash_bench.engine.request import FindStop
from dflash_bench.records.schema import Steps

if TYPE_CHECKING:
    from dflash_bench.runners.dialects.base import Reply


def ended(reply: "Reply", find_stop: FindStop | None) -> "Reply":
    """Return `reply` cut after the token that completes a stop string; as it is where none is found."""
    if find_stop is None or reply.ids is None:
        return reply
    keep = find_stop(reply.ids)
    if keep is None:
        return reply
    dropped = len(reply.ids) - keep
    acceptance = reply.acceptance
    if acceptance is not None and acceptance.overshoot is not None:
        overshoot = acceptance.overshoot + dropped
        acceptance = acceptance.model_copy(update={"overshoot": overshoot})
    return replace(
        reply,
        ids=reply.ids[:keep],
        output_tokens=keep,
        finish_reason="stop",
        chunks=_cut_chunks(reply.chunks, keep),
        steps=None if reply.steps is None else _cut_steps(reply.steps, keep - 1),
        acceptance=acceptance,
    )


def _cut_chunks(chunks: tuple[tuple[float, int], ...], keep: int) -> tuple[tuple[float, int], ...]:
    kept = list[tuple[float, int]]()
    for at_s, count in chunks:
        if keep > 0:
            kept.append((at_s, min(count, keep)))
        keep -= count
    return tuple(kept)


def _cut_steps(steps: Steps, keep: int) -> Steps:
    """Keep the steps that committed the first `keep` tokens after the prefill's; the last one is cut."""
    drafted, accepted, committed, cut = [], [], [], []
    for index, count in enumerate(steps.committed):
        if keep <= 0:
            break
        stay = min(count, keep)
        keep -= stay
        drafted.append(steps.drafted[index])
        committed.append(stay)
        accepted.append(stay - 1)
        cut.append(steps.cut[index] + count - stay)
    return Steps(
        drafted=tuple(drafted),
        accepted=tuple(accepted),
        committed=tuple(committed),
        cut=tuple(cut),
    )
