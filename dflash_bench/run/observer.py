"""Who watches a run: told of each visit and request, so that progress is shown elsewhere and the run prints nothing."""

from typing import Protocol

from dflash_bench.plan import Visit


class Observer(Protocol):
    """Watches a run."""

    def begins(self, visits: list[Visit], requests: dict[str, int]) -> None:
        """The run begins: the visits that are left, and how many requests each (by id) makes."""

    def visit_begins(self, visit: Visit) -> None:
        """A visit begins."""

    def answered(self, visit: Visit) -> None:
        """A request of the visit was answered."""

    def visit_ends(self, visit: Visit, wall_s: float) -> None:
        """A visit ended and is on disk."""

    def says(self, sentence: str) -> None:
        """Something that the user should know."""


class Silent:
    """Watches and says nothing."""

    def begins(self, visits: list[Visit], requests: dict[str, int]) -> None:
        """Say nothing."""

    def visit_begins(self, visit: Visit) -> None:
        """Say nothing."""

    def answered(self, visit: Visit) -> None:
        """Say nothing."""

    def visit_ends(self, visit: Visit, wall_s: float) -> None:
        """Say nothing."""

    def says(self, sentence: str) -> None:
        """Say nothing."""
