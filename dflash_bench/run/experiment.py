"""Plan -> records: the visits that a folder still lacks are made, in the plan's order.

Nothing is written before everything that can be refused was looked at: models loaded, prompts rendered,
every arm opened.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dflash_bench.errors import ConfigError
from dflash_bench.plan import Plan, Visit
from dflash_bench.records import manifest as manifests
from dflash_bench.records.store import FILE, appending, disk_errors, finished_visits, read_lines
from dflash_bench.run.observer import Observer
from dflash_bench.run.prepare import Asked, Key, key_of, prepare, shortfalls
from dflash_bench.run.provenance import describe
from dflash_bench.run.visits import make_visit
from dflash_bench.runners.base import Request, Runner, Session
from dflash_bench.spec import Spec


@dataclass(frozen=True)
class Experiment:
    """A spec with its plan, the runner that carries it out, and the folder that keeps what it gave."""

    spec: Spec
    plan: Plan
    runner: Runner
    folder: Path
    spec_path: Path
    argv: tuple[str, ...] = ()


def run(experiment: Experiment, observer: Observer, resume: bool = False) -> None:
    """Make every visit that the folder lacks.

    Raises:
        ConfigError: the folder holds another run, or one and `resume` is false; a model or a prompt does not fit.
        InfrastructureError: a disk, a network or a backend failed; what was finished is kept.

    """
    folder = experiment.folder
    refuse_used_folder(folder, resume)
    runner = experiment.runner
    runner.start()
    try:
        asked = prepare(experiment.spec, experiment.plan, runner)
        for sentence in shortfalls(asked, experiment.spec.design.prompts):
            observer.says(sentence)
        sessions = {name: runner.open(arm) for name, arm in experiment.plan.arms.items()}
        requests = _requests_by_visit(experiment, asked)
        _warm_up(sessions, requests[experiment.plan.visits[0].id])
        _settle(folder, experiment, describe(experiment, asked))
        _make_visits(experiment, asked, requests, sessions, observer)
        for session in sessions.values():
            session.close()
    finally:
        runner.stop()


def refuse_used_folder(folder: Path, resume: bool) -> None:
    """Refuse a folder that holds a run already, or something that is no run at all."""
    if (folder / manifests.FILE).exists():
        if not resume:
            raise ConfigError(
                f"{folder}: holds a run already.",
                remedy="Finish it with --resume, or choose another folder with -o.",
            )
    elif folder.exists() and not _is_empty(folder):
        raise ConfigError(
            f"{folder}: exists and is not a results folder.",
            remedy="Choose another folder with -o.",
        )


def _is_empty(folder: Path) -> bool:
    """Tell whether `folder` holds nothing but what a run leaves that was stopped before it began."""
    return folder.is_dir() and all(path.suffix == ".part" for path in folder.iterdir())


def _settle(folder: Path, experiment: Experiment, manifest: dict[str, Any]) -> None:
    """Write the manifest and the plan of a new run, or check that they are those of the run that goes on."""
    if (folder / manifests.FILE).exists():
        found = manifests.differences(manifests.read_manifest(folder), manifest)
        if found:
            raise ConfigError(
                f"{folder}: holds another run: {'; '.join(found[:5])}.",
                remedy="Choose another folder with -o, or restore what it was measured with.",
            )
        return
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    manifests.write_json(folder / manifests.FILE, manifest)
    plan = experiment.plan.model_dump(mode="json")
    manifests.write_json(folder / manifests.PLAN_FILE, plan)


def _make_visits(
    experiment: Experiment,
    asked: dict[Key, Asked],
    requests: dict[str, list[Request]],
    sessions: dict[str, Session],
    observer: Observer,
) -> None:
    folder, plan, design = experiment.folder, experiment.plan, experiment.spec.design
    with appending(folder) as writer:
        ended, attempts = finished_visits(read_lines(folder))
        left = [visit for visit in plan.visits if visit.id not in ended]
        if ended:
            observer.says(f"{folder / FILE}: {len(ended)} of {len(plan.visits)} visits are there.")
        observer.begins(left, {visit.id: len(requests[visit.id]) for visit in left})
        for number, visit in enumerate(left):
            time.sleep(design.cooldown_s if number else 0.0)
            cell = plan.cells[visit.cell]
            prompts = {prompt.id: prompt for prompt in asked[key_of(cell)].shaped.prompts}
            make_visit(
                visit,
                attempts[visit.id] + 1,
                cell,
                sessions[visit.arm],
                requests[visit.id],
                prompts,
                writer,
                observer,
            )


def _warm_up(sessions: dict[str, Session], requests: list[Request]) -> None:
    """Ask each arm one request that is not recorded: the first forward of a process pays for allocations.

    It is also the last chance to refuse what cannot run before anything is written.
    """
    for session in sessions.values():
        for _ in session.run(requests[:1], 1, 0.0):
            pass


def _requests_by_visit(experiment: Experiment, asked: dict[Key, Asked]) -> dict[str, list[Request]]:
    """Return what each visit asks: everything, or in a discarded round the first `design.warmup_prompts`."""
    spec, plan = experiment.spec, experiment.plan
    everything = {key: entry.requests(spec.sampling.max_new_tokens) for key, entry in asked.items()}

    def requests_of(visit: Visit) -> list[Request]:
        cell = plan.cells[visit.cell]
        requests = everything[key_of(cell)]
        if visit.role != "discard" or spec.design.warmup_prompts is None:
            return requests
        return requests[: max(spec.design.warmup_prompts, cell.batch_size)]

    return {visit.id: requests_of(visit) for visit in plan.visits}
