"""Progress on stderr: a bar with the time left on a terminal; elsewhere only what the user must know."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dflash_bench.plan import Visit
from dflash_bench.run.estimate import TimeLeft
from dflash_bench.run.observer import Observer


@contextmanager
def shown() -> Iterator[Observer]:
    """Show a run's progress on stderr; quiet when that is not a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        yield _Bar(bar, console)


class _Bar:
    """Moves the bar request by request; the time left is the sum over the visits that are left."""

    def __init__(self, bar: Progress, console: Console) -> None:
        self._bar = bar
        self._console = console
        self._task = bar.add_task("loading", total=None, left="")
        self._left: list[Visit] = []
        self._estimate = TimeLeft({})

    def begins(self, visits: list[Visit], requests: dict[str, int]) -> None:
        self._left = list(visits)
        self._estimate = TimeLeft(requests)
        self._bar.update(self._task, total=sum(requests.values()))

    def visit_begins(self, visit: Visit) -> None:
        self._bar.update(self._task, description=visit.id)

    def answered(self, visit: Visit) -> None:
        self._bar.advance(self._task)

    def visit_ends(self, visit: Visit, wall_s: float) -> None:
        self._left.remove(visit)
        self._estimate.saw(visit, wall_s)
        left = self._estimate.of(self._left)
        text = (
            f"about {left / 60:.0f} min left"
            if left and left > 90
            else f"about {left or 0:.0f} s left"
        )
        self._bar.update(self._task, left=text)

    def says(self, sentence: str) -> None:
        self._console.print(sentence, markup=False, highlight=False)
