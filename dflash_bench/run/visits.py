"""One visit: an arm is asked all requests of a cell, and every answer is written down as it comes."""

from datetime import UTC, datetime

from dflash_bench.plan import Visit
from dflash_bench.records.machine import load_average
from dflash_bench.records.schema import Answer, RequestRecord, VisitEnd, VisitStart
from dflash_bench.records.store import Writer
from dflash_bench.run.observer import Observer
from dflash_bench.run.questions import Questions
from dflash_bench.runners.base import Session
from dflash_bench.runners.machine import gpu_states
from dflash_bench.workloads.prompts import Prompt


def make_visit(
    visit: Visit,
    attempt: int,
    session: Session,
    questions: Questions,
    writer: Writer,
    observer: Observer,
) -> float:
    """Make `visit` and return its wall seconds; it counts once its `visit_end` is on disk."""
    writer.write(_start(visit, attempt))
    observer.visit_begins(visit)
    requests, prompts = questions.of(visit), questions.prompts(visit)
    failed = 0
    for answer in session.run(requests, questions.load(visit)):
        writer.write(_record(visit, attempt, answer, prompts[answer.request]))
        failed += answer.error is not None
        observer.answered(visit)
    totals, gpus = session.totals(), gpu_states()
    writer.write(
        VisitEnd(
            visit=visit.id,
            attempt=attempt,
            requests=len(requests),
            failed=failed,
            load_average=load_average(),
            gpus=None if gpus is None else tuple(gpus),
            **dict(totals),
        )
    )
    writer.sync()
    observer.visit_ends(visit, totals.wall_s)
    return totals.wall_s


def _start(visit: Visit, attempt: int) -> VisitStart:
    return VisitStart(
        visit=visit.id,
        attempt=attempt,
        cell=visit.cell,
        arm=visit.arm,
        round=visit.round,
        role=visit.role,
        time=datetime.now(UTC).isoformat(timespec="milliseconds"),
        load_average=load_average(),
        start=visit.start,
    )


def _record(visit: Visit, attempt: int, answer: Answer, prompt: Prompt) -> RequestRecord:
    ids = answer.output_ids
    told = dict(answer)
    if ids is not None:
        # Tokens are counted from ids wherever there are any.
        told["output_tokens"] = len(ids)
    return RequestRecord(
        visit=visit.id,
        attempt=attempt,
        prompt_sha256=prompt.sha256,
        prompt_tokens=len(prompt.ids),
        **told,
    )
