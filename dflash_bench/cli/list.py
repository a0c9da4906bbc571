"""`dflash-bench list KIND`: the runners, methods, workloads or models that this installation knows by a bare name."""

from collections.abc import Iterator

import click

KINDS = ("runners", "methods", "workloads", "models")


@click.command(name="list")
@click.argument("kind", type=click.Choice(KINDS))
def command(kind: str) -> None:
    """List what can be named in a config: KIND is runners, methods, workloads or models."""
    rows = list(_rows(kind))
    *widths, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    for *cells, last in rows:
        aligned = (f"{cell:<{width}}  " for cell, width in zip(cells, widths, strict=True))
        click.echo("".join(aligned) + last)


def _rows(kind: str) -> Iterator[tuple[str, ...]]:
    if kind == "runners":
        from dflash_bench.runners.recipe import load_recipes

        yield from ((recipe.name, f"{recipe.title}: {recipe.targets}") for recipe in load_recipes())
    elif kind == "methods":
        from dflash_bench.engine.registry import methods

        yield "method", "needs draft", "trees", "distribution", "what it does"
        for name, method in methods().items():
            facts = (method.needs_draft, method.has_tree, method.has_distribution)
            yield name, *("yes" if fact else "no" for fact in facts), method.title
    elif kind == "workloads":
        from dflash_bench.assets import names
        from dflash_bench.workloads.workload import load_workload

        for name in names("workloads"):
            workload = load_workload(name)
            yield name, f"{workload.title} ({workload.licence})"
    else:
        from dflash_bench.lab.catalogue import models

        yield from ((model.name, f"{model.role}: {model.description}") for model in models())
