"""`dflash-bench sweep CONFIG`: plan, run, analyse, report."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dflash_bench.errors import Interrupted

if TYPE_CHECKING:
    from dflash_bench.run.experiment import Experiment


@click.command(name="sweep")
@click.argument("config", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Results folder. [results/NAME]"
)
@click.option(
    "--resume", is_flag=True, help="Go on with an interrupted run; starts one if there is none."
)
@click.option("--dry-run", is_flag=True, help="Print cells, arms and order; load and run nothing.")
@click.option("--prompts", type=click.IntRange(min=1), help="Override design.prompts.")
@click.option(
    "--base-url",
    multiple=True,
    metavar="[ARM=]URL",
    help="Ask the server that runs at URL, for ARM or for all arms without one; start none.",
)
@click.option(
    "--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def command(
    config: Path,
    output: Path | None,
    resume: bool,
    dry_run: bool,
    prompts: int | None,
    base_url: tuple[str, ...],
    style: str,
) -> int:
    """Measure every arm in every cell of CONFIG, a YAML file, and report.

    The results folder keeps the raw records; --resume finishes an interrupted run. Exit codes: 0 done,
    2 usage or config, 6 disk, network or backend, 7 finished with failed or invalid cells, 130 interrupted.
    """
    from dflash_bench.plan import make_plan
    from dflash_bench.run.experiment import Experiment, refuse_used_folder
    from dflash_bench.runners.registry import make_runner
    from dflash_bench.spec import load_spec, overridden

    spec = overridden(load_spec(config), {"design.prompts": prompts, **_addresses(base_url)})
    runner = make_runner(spec)
    plan = make_plan(spec, runner.refusal, runner.nesting, runner.couples_noise)
    folder = output or Path(spec.output or Path("results") / spec.name)
    if dry_run:
        _print_plan(plan.model_dump(mode="json"), style)
        return 0
    refuse_used_folder(folder, resume)
    experiment = Experiment(spec, plan, runner, folder, config, tuple(sys.argv[1:]))
    _run(experiment, resume)
    return _report(folder, style)


def _addresses(told: tuple[str, ...]) -> dict[str, str]:
    """Return the keys of a spec that `--base-url` sets: `ARM=URL` is that arm's, a bare URL everybody's."""
    found = {}
    for text in told:
        arm, named, url = text.partition("=")
        is_named = bool(named) and "/" not in arm
        found[f"arms.{arm}.base_url" if is_named else "base_url"] = url if is_named else text
    return found


def _run(experiment: "Experiment", resume: bool) -> None:
    from dflash_bench.cli.progress import shown
    from dflash_bench.run.experiment import run

    try:
        with shown() as observer:
            run(experiment, observer, resume)
    except KeyboardInterrupt:
        raise Interrupted(
            f"{experiment.folder}: interrupted; every finished visit is kept.",
            remedy="Run the same command with --resume to go on.",
        ) from None


def _report(folder: Path, style: str) -> int:
    """Derive everything from the records, print the last lines, and return the exit code."""
    from dflash_bench.cli.derive import derive

    derived = derive(folder)
    if style == "json":
        click.echo(json.dumps(derived.analysis.verdicts, indent=1, allow_nan=False))
    else:
        click.echo(derived.closing_lines)
    return 7 if derived.invalid else 0


def _print_plan(plan: dict[str, object], style: str) -> None:
    from dflash_bench.cli.dry_run import plan_text

    click.echo(json.dumps(plan, indent=1) if style == "json" else plan_text(plan))
