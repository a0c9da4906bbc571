"""One request over HTTP: what goes out, and what came, stamped and otherwise as it was."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Wire:
    """One request as it goes out: `body` becomes JSON and is posted to `path`."""

    id: str
    path: str
    body: dict[str, Any]


@dataclass(frozen=True)
class Exchange:
    """One request and what came of it; all times are seconds of one performance counter.

    `slot_s`: when its slot was free (closed loop: the end of the slot's last request, or the start), or when it was due
    (open loop). `events`: arrival and payload of each server-sent event, or of the whole body where it is no stream.
    `is_silent`: it ended because nothing came for as long as the address allows.
    """

    id: str
    slot_s: float
    sent_s: float
    ended_s: float
    status: int | None
    error: str | None
    events: tuple[tuple[float, bytes], ...]
    is_silent: bool = False
