"""Find a source's rows: the user's data folder first, then a file beside the YAML, then the hub."""

import os
from collections.abc import Iterator
from pathlib import Path

from dflash_bench.errors import ConfigError
from dflash_bench.workloads.hub import hub_rows
from dflash_bench.workloads.rows import Row, read_rows
from dflash_bench.workloads.workload import Select, Source

DATA_VARIABLE = "DFLASH_BENCH_DATA"


def source_rows(source: Source, data_dir: str | None) -> Iterator[Row]:
    """Yield the rows of `source` in the authors' order.

    `data_dir` is a folder with the authors' files or such a file itself; after it comes the folder that the environment
    variable DFLASH_BENCH_DATA names. Raises ConfigError for a bad file, InfrastructureError where only the hub is left.
    """
    path = find_file(source, data_dir)
    if path is not None:
        rows = read_rows(path)
    elif source.hub is not None:
        rows = hub_rows(source.hub, _local_remedy(source))
    else:
        raise ConfigError(
            f"data: found no {' or '.join(source.files) or source.path}.",
            remedy=_local_remedy(source),
        )
    return _selected(rows, source.select) if source.select else rows


def find_file(source: Source, data_dir: str | None) -> Path | None:
    """Return the local file that `source` is read from, or None where only the hub has it."""
    for place in _places(data_dir) if source.files else ():
        if place.is_file():
            return place
        for name in source.files:
            if (place / name).is_file():
                return place / name
    if source.path is not None and Path(source.path).is_file():
        return Path(source.path)
    return None


def _places(data_dir: str | None) -> Iterator[Path]:
    named = (("data_dir", data_dir), (DATA_VARIABLE, os.environ.get(DATA_VARIABLE)))
    for origin, value in named:
        if not value:
            continue
        place = Path(value).expanduser()
        if not place.exists():
            raise ConfigError(
                f"{origin}: there is no file or folder {value}.",
                remedy=f"Correct {origin}, or leave it out.",
            )
        yield place


def _local_remedy(source: Source) -> str:
    """Say how to give the rows as a file."""
    if not source.files:
        return "Check the path in the workload's YAML."
    origin = f", from {source.url}," if source.url else ""
    return (
        f"Put {source.files[0]}{origin} into a folder and name that folder in `data_dir:`"
        f" or in {DATA_VARIABLE}."
    )


def _selected(rows: Iterator[Row], select: Select) -> Iterator[Row]:
    for row in rows:
        number = row.fields.get(select.field)
        if not isinstance(number, int):
            raise ConfigError(
                f"{row.where}: '{select.field}' is not a whole number.",
                remedy="The workload selects its rows by it: use the authors' own file.",
            )
        if select.first <= number <= select.last:
            yield row
