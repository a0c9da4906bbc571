"""Rows from the Hugging Face hub, through the optional package `datasets`, at a pinned revision."""

from collections.abc import Iterator
from typing import Any

from dflash_bench.errors import InfrastructureError
from dflash_bench.workloads.rows import Row
from dflash_bench.workloads.workload import Hub


def hub_rows(hub: Hub, local_remedy: str) -> Iterator[Row]:
    """Yield the rows of `hub` in its order, with the field names of the authors' file.

    Raises InfrastructureError with `local_remedy`, which says how to do without the hub.
    """
    for number, fields in enumerate(_dataset(hub, local_remedy), start=1):
        renamed = {hub.rename.get(name, name): value for name, value in fields.items()}
        yield Row(f"{hub.id} ({hub.split}), row {number}", renamed)


def _dataset(hub: Hub, local_remedy: str) -> Any:
    try:
        # Imported here: it is optional, and needed only when the hub is asked.
        from datasets import load_dataset
        from datasets.exceptions import DatasetsError
    except ImportError:
        raise InfrastructureError(
            f"{hub.id}: is on the Hugging Face hub, and the package `datasets` is not installed.",
            remedy=f"{local_remedy} Or: pip install 'datasets>=4'",
        ) from None
    try:
        return load_dataset(hub.id, hub.config, split=hub.split, revision=hub.revision)
    # OSError covers the network and the hub's refusals; ValueError a split or a cache that is not there.
    except (OSError, ValueError, DatasetsError) as error:
        raise InfrastructureError(
            f"{hub.id}: the Hugging Face hub did not give it: {error}", remedy=local_remedy
        ) from error
