"""The command line: one file per verb. A verb is imported when it is used, so that `--help` is instant."""

import sys
from importlib import import_module
from typing import NoReturn

import click

from dflash_bench import __version__
from dflash_bench.errors import BenchError, did_you_mean, printable

# verb -> the line that `--help` shows; its code is `dflash_bench/cli/VERB.py`, a command of the same name.
VERBS = {
    "doctor": "Say which backends are ready on this machine, and what the others lack.",
    "env": "Create, list or remove the environments of backends.",
    "inspect": "Say what a drafter's checkpoint is, and whether it fits a target.",
    "lab": "Build the small models that we ship.",
    "list": "List runners, methods, workloads or models.",
    "report": "Rebuild cells, verdicts and the HTML report from the records.",
    "sweep": "Measure every arm in every cell of CONFIG, and report.",
}


class Verbs(click.Group):
    """A group whose commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs, sorted."""
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb's file and return its command."""
        if cmd_name not in VERBS:
            return None
        module = import_module(f"dflash_bench.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(VERBS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; an unknown one gets a suggestion."""
        if args and not args[0].startswith("-") and args[0] not in VERBS:
            raise click.UsageError(f"'{args[0]}' is not a verb. {did_you_mean(args[0], VERBS)}")
        return super().resolve_command(ctx, args)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dflash-bench")
def main_group() -> None:
    """Will DFlash speculative decoding help my workload?

    Runs the same prompts with and without it, checks that it was a measurement, and says so in a sentence.
    """


def main() -> NoReturn:
    """Run the command line; a user's mistake is a sentence with a remedy, never a traceback."""
    try:
        code = main_group.main(standalone_mode=False)
    except BenchError as error:
        click.echo(printable(f"error: {error.message}"), err=True)
        if error.remedy:
            click.echo(printable(f"remedy: {error.remedy}"), err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)
