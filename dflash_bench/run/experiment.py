"""Plan -> records: the visits that a folder still lacks are made, in the plan's order.

Nothing is written before everything that can be refused was looked at: models loaded, prompts rendered, every arm
opened. Arms that are started one at a time are opened in the discarded round at the latest.
"""

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dflash_bench.errors import ConfigError
from dflash_bench.plan import Plan
from dflash_bench.records import manifest as manifests
from dflash_bench.records.secrets import hidden_flags
from dflash_bench.records.store import FILE, appending, disk_errors, finished_visits, read_lines
from dflash_bench.run.arms import Arms, OneAtATime, SideBySide
from dflash_bench.run.observer import Observer
from dflash_bench.run.prepare import prepare, shortfalls
from dflash_bench.run.provenance import describe
from dflash_bench.run.questions import Questions
from dflash_bench.run.visits import make_visit
from dflash_bench.runners.base import Runner
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
        questions = Questions(experiment.spec, experiment.plan, asked)
        with closing(_arms(experiment, questions)) as arms:
            _settle(folder, experiment, describe(experiment, asked))
            _make_visits(experiment, questions, arms, observer)
    finally:
        runner.stop()


def _arms(experiment: Experiment, questions: Questions) -> Arms:
    runner, plan = experiment.runner, experiment.plan
    if runner.nesting == "start":
        return OneAtATime(runner, plan, questions, experiment.folder)
    return SideBySide(runner, plan, questions)


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
    plan = hidden_flags(experiment.plan.model_dump(mode="json"))
    manifests.write_json(folder / manifests.PLAN_FILE, plan)


def _make_visits(
    experiment: Experiment, questions: Questions, arms: Arms, observer: Observer
) -> None:
    folder, plan, design = experiment.folder, experiment.plan, experiment.spec.design
    with appending(folder) as writer:
        ended, attempts = finished_visits(read_lines(folder))
        left = [visit for visit in plan.visits if visit.id not in ended]
        if ended:
            observer.says(f"{folder / FILE}: {len(ended)} of {len(plan.visits)} visits are there.")
        observer.begins(left, {visit.id: len(questions.of(visit)) for visit in left})
        for number, visit in enumerate(left):
            session = arms.session(visit, left[number:])
            time.sleep(design.cooldown_s if number else 0.0)
            make_visit(
                visit,
                attempts[visit.id] + 1,
                session,
                questions,
                writer,
                observer,
            )
