"""Which arms are ready when: all of them side by side in one process, or one at a time, each started for its turn."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Protocol

from dflash_bench.plan import Plan, Visit
from dflash_bench.run.questions import Questions
from dflash_bench.runners.base import Load, Opening, Request, Runner, Session

LOGS = "logs"


class Arms(Protocol):
    """Gives the session of a visit."""

    def session(self, visit: Visit, following: Sequence[Visit]) -> Session:
        """Return the arm of `visit`, ready and warm; `following` are the visits from it on, in their order."""

    def close(self) -> None:
        """Give back whatever is open."""


class SideBySide:
    """All arms opened at once: the first visit comes after everything that can be refused."""

    def __init__(self, runner: Runner, plan: Plan, questions: Questions) -> None:
        self._sessions: dict[str, Session] = {}
        for name, arm in plan.arms.items():
            self._sessions[name] = runner.open(arm, _opening(plan, questions, plan.visits))
        # The first forward of a process pays for allocations.
        request = questions.of(plan.visits[0])[:1]
        for session in self._sessions.values():
            _ask_for_nothing(session, request)

    def session(self, visit: Visit, following: Sequence[Visit]) -> Session:
        """Return the arm of `visit`."""
        return self._sessions[visit.arm]

    def close(self) -> None:
        """Close all arms."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()


class OneAtATime:
    """One arm open: its start serves the visits that share it, and it is gone before the next one is started."""

    def __init__(self, runner: Runner, plan: Plan, questions: Questions, folder: Path) -> None:
        self._runner = runner
        self._plan = plan
        self._questions = questions
        self._folder = folder
        self._start: str | None = None
        self._session: Session | None = None
        self._openings: dict[str | None, Opening] = {}

    def session(self, visit: Visit, following: Sequence[Visit]) -> Session:
        """Return the arm of `visit`, started now unless the visit before has the same start."""
        if self._session is None or visit.start != self._start:
            self.close()
            shared = list(takewhile(lambda later: later.start == visit.start, following))
            arm = self._plan.arms[visit.arm]
            log = _fresh(self._folder / LOGS, visit.start or visit.arm)
            self._session = self._runner.open(arm, self._opening(visit, log))
            self._start = visit.start
            self._warm_up(self._session, shared)
        return self._session

    def close(self) -> None:
        """Close the arm that is open."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _opening(self, visit: Visit, log: Path) -> Opening:
        """Return the limits of a start: the same for every arm and every round, whatever is left of the run."""
        precision = self._plan.cells[visit.cell].target_quantization
        if precision not in self._openings:
            alike = [
                other
                for other in self._plan.visits
                if self._plan.cells[other.cell].target_quantization == precision
            ]
            self._openings[precision] = _opening(self._plan, self._questions, alike)
        return replace(self._openings[precision], log=log)

    def _warm_up(self, session: Session, visits: Sequence[Visit]) -> None:
        """Ask once at each batch size and temperature: graphs are captured and kernels compiled for them."""
        kinds = {}
        for visit in visits:
            cell = self._plan.cells[visit.cell]
            kinds[cell.batch_size, cell.temperature] = visit
        for (_, temperature), visit in kinds.items():
            _ask_for_nothing(session, self._questions.warm_up(visit), temperature)


def _ask_for_nothing(
    session: Session, requests: Sequence[Request], temperature: float = 0.0
) -> None:
    """Ask what is not recorded. A failed answer is the measured visits' to tell."""
    for _ in session.run(requests, Load(max(1, len(requests)), temperature)):
        pass


def _opening(plan: Plan, questions: Questions, visits: Sequence[Visit]) -> Opening:
    cells = [plan.cells[visit.cell] for visit in visits]
    return Opening(
        batch_size=max(cell.batch_size for cell in cells),
        positions=max(questions.positions(visit) for visit in visits),
        quantization=cells[0].target_quantization,
    )


def _fresh(folder: Path, name: str) -> Path:
    """Return a log's path that no earlier attempt has written to."""
    stem, number = name.replace("/", "-"), 1
    while (path := folder / f"{stem}.{number}.log").exists():
        number += 1
    return path
