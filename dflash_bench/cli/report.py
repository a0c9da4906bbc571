"""`dflash-bench report DIR`: everything derived is made again from the raw records. Needs no torch."""

from pathlib import Path

import click


@click.command(name="report")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="HTML file. [FOLDER/report.html]"
)
def command(folder: Path, output: Path | None) -> int:
    """Rebuild cells.json, verdicts.json and report.html of FOLDER from its records."""
    from dflash_bench.cli.derive import derive

    derived = derive(folder, output)
    click.echo(derived.closing_lines)
    return 7 if derived.invalid else 0
