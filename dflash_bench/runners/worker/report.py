"""From a worker's report of one request to its record.

A report tells the tokens, and of each pass of the target when it was done and `[drafted, kept, committed]`: drafts
verified, drafts that the rule kept (null: not told), tokens added to the text. The first pass is the prefill. Where a
backend drafts before it has read the prompt, that pass is a step as well (`first_pass: both`): its first token is the
prefill's, and what it accepted behind it is a step with one draft less. So tokens - 1 = steps + accepted - overshoot
holds as everywhere; the time of that step is the prefill's, and it is no step of the share.

Time stops with the pass that ended the text. A stop string is looked for afterwards, for no such loop can end at one:
what the loop did behind it costs the answer nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dflash_bench.engine.request import FindStop
from dflash_bench.records.schema import Acceptance, Answer, Chunks, Phases, Share, Steps, Totals
from dflash_bench.runners.acceptance import canonical
from dflash_bench.runners.dialects.base import FinishReason, Reply
from dflash_bench.runners.ending import ended

Pass = tuple[int, int | None, int]
FirstPass = Literal["prefill", "both"]


@dataclass(frozen=True)
class Origin:
    """What made a report: `source` names it in records; `drafts` is false for plain decoding."""

    source: str
    first_pass: FirstPass
    drafts: bool
    block_size: int | None
    stop_ids: frozenset[int]


def answer_of(
    id: str, report: dict[str, Any], origin: Origin, find_stop: FindStop | None
) -> Answer:
    """Return the record of a request; its text is left to whoever has the tokenizer. No token at all is an error."""
    if not report["tokens"]:
        return Answer(request=id, error="the backend generated no token")
    passes = [(drafted, kept, committed) for drafted, kept, committed in report["passes"]]
    whole = _reply(report, passes, origin)
    reply = ended(whole, find_stop)
    ids = reply.ids or ()
    times = [at_s for at_s, _ in reply.chunks]
    sizes = [count for _, count in reply.chunks]
    return Answer(
        request=id,
        output_ids=ids,
        finish_reason=reply.finish_reason,
        ttft_s=times[0],
        e2e_s=times[-1],
        chunks=Chunks(at_s=tuple(times), tokens=tuple(sizes)),
        steps=reply.steps,
        acceptance=reply.acceptance,
        window=Share(
            prefill_s=times[0],
            decode_s=times[-1] - times[0],
            tokens=len(ids),
            decode_tokens=len(ids) - sizes[0],
            steps=len(sizes) - 1,
            drafted=sum(drafted for drafted, _, _ in passes[1 : len(sizes)]),
            accepted=len(ids) - sizes[0] - (len(sizes) - 1),
            # A loop that ran on behind a stop string used it for more than the answer.
            cpu_s=report["cpu_s"] if reply is whole else None,
        ),
    )


def totals_of(
    answers: Sequence[Answer], origin: Origin, wall_s: float, backend: dict[str, Any]
) -> Totals:
    """Return the totals of a visit of one request after the other: the window is all of their times."""
    shares = [answer.window for answer in answers if answer.window is not None]
    whole = len(shares) == len(answers) and bool(shares)
    prefill_s = sum(share.prefill_s or 0.0 for share in shares)
    decode_s = sum(share.decode_s or 0.0 for share in shares)
    cpu = [share.cpu_s for share in shares if share.cpu_s is not None]
    cpu_s = sum(cpu) if whole and len(cpu) == len(shares) else None
    steps = sum(share.steps or 0 for share in shares) if whole else None
    told = [answer.acceptance for answer in answers if answer.acceptance is not None]
    return Totals(
        wall_s=wall_s,
        cpu_s=cpu_s,
        window_wall_s=prefill_s + decode_s if whole else None,
        window_cpu_s=cpu_s,
        window_phases=Phases(prefill_s=prefill_s, decode_s=decode_s) if whole else None,
        block_size=origin.block_size,
        occupancy=1.0 if whole else None,
        steps=steps,
        row_steps=steps,
        acceptance=canonical.pooled(origin.source, told) if whole else None,
        backend=backend,
    )


def steps_of(passes: Sequence[Pass], first_pass: FirstPass) -> Steps | None:
    """Return the steps of `passes`, the prefill's own token left out; None where a pass does not tell what it kept."""
    told = _judged(passes, first_pass)
    if any(kept is None for _, kept, _ in told):
        return None
    committed = tuple(count for _, _, count in told)
    return Steps(
        drafted=tuple(drafted for drafted, _, _ in told),
        accepted=tuple(count - 1 for count in committed),
        committed=committed,
        cut=tuple((kept or 0) + 1 - count for _, kept, count in told),
    )


def _judged(passes: Sequence[Pass], first_pass: FirstPass) -> list[Pass]:
    first, rest = passes[0], list(passes[1:])
    drafted, kept, committed = first
    if first_pass == "prefill" or committed < 2:
        return rest
    return [(drafted - 1, None if kept is None else kept - 1, committed - 1), *rest]


def _reply(report: dict[str, Any], passes: Sequence[Pass], origin: Origin) -> Reply:
    tokens = tuple(report["tokens"])
    steps = steps_of(passes, origin.first_pass)
    reason: FinishReason = "eos" if tokens[-1] in origin.stop_ids else "length"
    return Reply(
        ids=tokens,
        output_tokens=len(tokens),
        finish_reason=reason,
        chunks=tuple(
            (at_s, committed)
            for at_s, (_, _, committed) in zip(report["at_s"], passes, strict=True)
        ),
        steps=steps,
        acceptance=_acceptance(passes, steps, origin) if origin.drafts else None,
    )


def _acceptance(passes: Sequence[Pass], steps: Steps | None, origin: Origin) -> Acceptance:
    if steps is not None:
        width = origin.block_size - 1 if origin.block_size else None
        return canonical.of_steps(origin.source, steps, width)
    told = _judged(passes, origin.first_pass)
    return Acceptance(
        source=origin.source,
        steps=len(told),
        plain_steps=sum(drafted == 0 for drafted, _, _ in told),
        drafted=sum(drafted for drafted, _, _ in told),
        # The backend counts after its own cut, so nothing that it counts was dropped.
        accepted=sum(committed - 1 for _, _, committed in told),
        overshoot=0,
    )
