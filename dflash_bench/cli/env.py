"""`dflash-bench env`: the environments of the backends, each of its own, made from their recipes."""

import click


@click.group(name="env")
def command() -> None:
    """Create, list or remove the environments in which backends are installed.

    They lie in ~/.local/share/dflash-bench/envs, or under DFLASH_BENCH_HOME.
    """


@command.command(name="create")
@click.argument("recipe")
@click.option(
    "--variant",
    default="auto",
    show_default=True,
    help="What to install, such as cpu or cuda; auto looks for a GPU.",
)
@click.option("--force", is_flag=True, help="Delete the one that is there and make it afresh.")
def create(recipe: str, variant: str, force: bool) -> None:
    """Install the backend of RECIPE: the name of one of ours, or the path of a YAML file.

    An environment that is there and fits is kept. What is installed is pinned by the recipe.
    """
    from dflash_bench.runners import environments
    from dflash_bench.runners.recipe import load_recipe

    made = environments.create(
        load_recipe(recipe), variant, force=force, say=lambda line: click.echo(line, err=True)
    )
    click.echo(f"{made.name} {made.version} ({made.variant}) in {made.folder}")


@command.command(name="list")
def list_() -> None:
    """List the environments that are there, whole and half-made."""
    from dflash_bench.runners import environments

    found = environments.listed()
    if not found:
        click.echo(f"no environments in {environments.home() / 'envs'}", err=True)
    for name, whole in found.items():
        if whole is None:
            click.echo(f"{name}  half-made: `dflash-bench env create` begins it afresh")
        else:
            click.echo(
                f"{name}  {whole.version}  {whole.variant}  made {whole.made}  {whole.folder}"
            )


@command.command(name="remove")
@click.argument("name")
def remove(name: str) -> None:
    """Delete the environment NAME and all that is installed in it."""
    from dflash_bench.runners import environments

    click.echo(f"removed {environments.remove(name)}", err=True)
