"""The steps of many requests, end to end in four arrays, so that sums over millions of steps are one call.

Request `i` owns the steps `offsets[i] : offsets[i + 1]`. Steps are small numbers: 16 bits each are plenty.
"""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
COLUMNS = ("drafted", "accepted", "committed", "cut")
OPTIONAL = ("depth", "scheduled", "busy")
NOT_TOLD = -1


@dataclass(frozen=True)
class Steps:
    """Steps of requests 0..N-1, S in all. Each column has shape [S], `offsets` [N + 1].

    `known` [N] is false where a backend does not tell its steps; `depth` (the most drafts on a path), `scheduled` and
    `busy` are -1 where it does not tell these.
    """

    drafted: NDArray[np.int16]
    accepted: NDArray[np.int16]
    committed: NDArray[np.int16]
    cut: NDArray[np.int16]
    depth: NDArray[np.int16]
    scheduled: NDArray[np.int16]
    busy: NDArray[np.int16]
    offsets: Ints
    known: NDArray[np.bool_]

    @property
    def lengths(self) -> Ints:
        """How many steps each request has, [N]."""
        return np.diff(self.offsets)

    def per_request(self, column: NDArray[np.int16]) -> Ints:
        """Sum `column` over each request's steps, [N]."""
        before = np.concatenate([[0], np.cumsum(column, dtype=np.int64)])
        return np.diff(before[self.offsets])

    def of(self, requests: Ints) -> "Steps":
        """Return the steps of `requests` only, in that order."""
        starts, stops = self.offsets[requests], self.offsets[requests + 1]
        slices = [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]

        def taken(name: str) -> NDArray[np.int16]:
            column = getattr(self, name)
            return np.concatenate([column[:0], *(column[part] for part in slices)])

        return Steps(
            **{name: taken(name) for name in (*COLUMNS, *OPTIONAL)},
            offsets=np.concatenate([[0], np.cumsum(stops - starts)]),
            known=self.known[requests],
        )


class StepsBuilder:
    """Takes requests one by one, gives `Steps`."""

    def __init__(self) -> None:
        self._columns = {name: array("h") for name in (*COLUMNS, *OPTIONAL)}
        self._ends = [0]
        self._known: list[bool] = []

    def add(self, steps: Mapping[str, Any] | None) -> int:
        """Append one request's steps, None where they are not known; return the request's number."""
        if steps is not None:
            count = len(steps["accepted"])
            for name, column in self._columns.items():
                untold = name in OPTIONAL and steps.get(name) is None
                values = [NOT_TOLD] * count if untold else steps[name]
                if len(values) != count:
                    raise ValueError(f"steps.{name} and steps.accepted differ in length")
                # An array is made of a list, and appended to another, far faster than one is extended by a list.
                column.extend(array("h", values))
        self._ends.append(len(self._columns["accepted"]))
        self._known.append(steps is not None)
        return len(self._known) - 1

    def build(self) -> Steps:
        """Return everything that was added."""
        columns = {name: np.array(column, dtype=np.int16) for name, column in self._columns.items()}
        return Steps(**columns, offsets=np.array(self._ends), known=np.array(self._known, bool))
