"""Records of runs that never ran: every number is the test's own, so that every result can be computed by hand.

lines = recording(visit("ar", 1, [answer("p0", tokens=3, steps=plain_steps(2), wall=2.0)]), ...)
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dflash_bench.plan import Plan, make_plan
from dflash_bench.records.schema import RequestRecord, Share, Steps, VisitEnd, VisitStart
from dflash_bench.spec import Spec

CELL = "sample-math.b1.t0"
Record = dict[str, Any]


def spec(**changes: Any) -> Spec:
    """Return a spec of one workload with AR and DFlash at block 4."""
    content: dict[str, Any] = {
        "name": "scripted",
        "target": "lab",
        "arms": {"ar": {"method": "ar"}, "dflash": {"method": "dflash", "draft": "lab"}},
        "workloads": ["sample-math"],
        "sweep": {"block_size": [4]},
    }
    return Spec.model_validate(content | changes)


def plan(**changes: Any) -> Plan:
    """Return the plan of `spec`."""
    return make_plan(spec(**changes))


def steps(*accepted: int, drafted: int = 3, cut_last: int = 0, **told: Sequence[int]) -> Steps:
    """Return steps that accepted so many of `drafted` each; the last had `cut_last` tokens dropped.

    `told` is what not every backend tells: `depth`, `scheduled`, `busy`.
    """
    count = len(accepted)
    return Steps(
        drafted=(drafted,) * count,
        accepted=accepted,
        committed=tuple(number + 1 for number in accepted),
        cut=((0,) * (count - 1) + (cut_last,))[:count],
        **{name: tuple(values) for name, values in told.items()},
    )


def answer(
    request: str,
    taken: Steps,
    step_s: float = 1.0,
    prefill_s: float = 0.5,
    draft_prefill_s: float = 0.0,
    ids: Sequence[int] | None = None,
    **changes: Any,
) -> Record:
    """Return a request that ran alone: one second a step, all of it in the window, ids counting up from 7."""
    tokens = 1 + sum(taken.committed)
    decode = step_s * len(taken.accepted)
    share = Share(
        tokens=tokens,
        steps=len(taken.accepted),
        drafted=sum(taken.drafted),
        accepted=sum(taken.accepted),
        prefill_s=prefill_s,
        draft_prefill_s=draft_prefill_s,
        draft_s=decode / 4,
        verify_s=decode / 2,
        commit_s=decode / 8,
        other_s=decode / 8,
        cpu_s=decode,
    )
    given: Record = {
        "request": request,
        "prompt_sha256": f"sha-{request}",
        "prompt_tokens": 5,
        "output_tokens": tokens,
        "output_ids": tuple(ids if ids is not None else range(7, 7 + tokens)),
        "finish_reason": "eos",
        "ttft_s": prefill_s,
        "e2e_s": prefill_s + draft_prefill_s + decode,
        "draft_prefill_s": draft_prefill_s,
        "steps": taken,
        "window": share,
    }
    return given | changes


def failure(request: str) -> Record:
    """Return a request that failed."""
    return {
        "request": request,
        "prompt_sha256": f"sha-{request}",
        "prompt_tokens": 5,
        "error": "the server closed the connection",
    }


def visit(
    arm: str,
    number: int,
    answers: Sequence[Record],
    cell: str = CELL,
    role: str = "measure",
    attempt: int = 1,
    ended: bool = True,
    **changes: Any,
) -> list[Record]:
    """Return the lines of one visit as they are read from disk; its window is the sum of its shares."""
    key: Record = {"visit": f"{cell}/r{number}/{arm}/{role}", "attempt": attempt}
    start: Record = {
        "cell": cell,
        "arm": arm,
        "round": number,
        "role": role,
        "time": "2026-01-01T00:00:00.000+00:00",
        "load_average": None,
    }
    shares = [given["window"] for given in answers if given.get("window") is not None]
    wall = sum(window_s(share) for share in shares)
    end: Record = {
        "wall_s": wall,
        "cpu_s": wall,
        "window_wall_s": wall,
        "window_cpu_s": wall / 2,
        "occupancy": 1.0,
        "steps": sum(share.steps or 0 for share in shares),
        "row_steps": sum(share.steps or 0 for share in shares),
        "requests": len(answers),
        "failed": sum(given.get("error") is not None for given in answers),
        "load_average": None,
    }
    lines = [
        VisitStart.model_validate(key | start),
        *(RequestRecord.model_validate(key | given) for given in answers),
    ]
    if ended:
        lines.append(VisitEnd.model_validate(key | end | changes))
    return [line.model_dump(mode="json") for line in lines]


def window_s(share: Share) -> float:
    """Return the wall seconds of a share."""
    phases: Mapping[str, float | None] = share.model_dump(
        include=set(Share.model_fields) - {"cpu_s"}
    )
    return sum(seconds or 0.0 for name, seconds in phases.items() if name.endswith("_s"))


def recording(*visits: list[Record]) -> list[Record]:
    """Return the lines of `visits`, in order."""
    return [line for lines in visits for line in lines]


def rounds(
    speedups: Sequence[float], prompts: int = 4, arm: str = "dflash-b4", **where: Any
) -> list[Record]:
    """Return paired rounds in which the arm commits two tokens a step and is `speedups[r]` times as fast per token.

    AR takes a second a token without a prefill; prompt i puts out 2 i + 3 tokens.
    """
    visits = []
    for number, speedup in enumerate(speedups, start=1):
        baseline, measured = [], []
        for index in range(prompts):
            ar = steps(*[0] * (2 * index + 2), drafted=0)
            fast = steps(*[1] * (index + 1))
            tokens = 2 * index + 3
            baseline.append(answer(f"p{index}", ar, prefill_s=1.0))
            whole = tokens / speedup
            prefill = whole / tokens
            step = (whole - prefill) / (index + 1)
            measured.append(answer(f"p{index}", fast, step_s=step, prefill_s=prefill))
        visits += [visit("ar", number, baseline, **where), visit(arm, number, measured, **where)]
    return recording(*visits)
