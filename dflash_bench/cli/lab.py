"""`dflash-bench lab build`: train the small models again, with the seeds and step budgets of the shipped ones."""

from pathlib import Path

import click

from dflash_bench.errors import Interrupted


@click.group(name="lab")
def command() -> None:
    """Build the small models that we ship."""


@command.command(name="build")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder for models and checkpoints.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    help="Folder with gsm8k_train.jsonl. [DFLASH_BENCH_DATA, else the hub]",
)
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True)
def build(output: Path, data_dir: Path | None, threads: int) -> None:
    """Train tokenizer, target and its drafters into OUTPUT; a stopped build goes on where it was."""
    from dflash_bench.runners.device import require_torch

    require_torch()
    from dflash_bench.lab.build import build as build_models

    try:
        build_models(
            output,
            data_dir=data_dir,
            threads=threads,
            progress=lambda line: click.echo(line, err=True),
        )
    except KeyboardInterrupt:
        raise Interrupted(
            f"{output}: interrupted; every finished stage and the last checkpoint are kept.",
            remedy="Run the same command to go on.",
        ) from None
    click.echo(f"The models lie in {output}.")
