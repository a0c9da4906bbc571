"""Lines of records, gathered into tables: visits, requests, and their steps.

A line holds lists (steps, output ids), a table wants columns; 100,000 requests hold ten million steps. So the lines
are walked once, scalars go into columns, steps end to end into compact arrays. Only visits with an end count, and of
several attempts of a visit only the finished one.
"""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dflash_bench.analysis.drafting import SUMMED, Drafting, drafting, summed_row
from dflash_bench.analysis.steps import Steps, StepsBuilder
from dflash_bench.errors import InfrastructureError

KEY = ["visit", "attempt"]
VISIT = ["cell", "arm", "round", "role"]
END = [
    "window_wall_s",
    "window_cpu_s",
    "occupancy",
    "row_steps",
    "requests",
    "peak_memory_bytes",
    "kv_bytes_per_token",
    "block_size",
    "lag_p99_s",
    "client_cpu_share",
]
# What is asked. The same request with another prompt (a template that differs) is another thing.
ASKED = ["request", "prompt_sha256"]
TOLD = ["output_tokens", "ttft_s", "e2e_s", "client_queue_s", "cached_tokens"]
PHASES = [
    "prefill_s",
    "draft_prefill_s",
    "draft_s",
    "verify_s",
    "commit_s",
    "other_s",
    "decode_s",
]
SHARE = ["tokens", "steps", "accepted", "decode_tokens", *PHASES]
SAID = ["said", "chunks"]


@dataclass(frozen=True)
class Sample:
    """The finished visits of one arm in one cell with one role, their requests, and these requests' steps."""

    visits: pd.DataFrame
    requests: pd.DataFrame
    steps: Steps

    @cached_property
    def answered(self) -> pd.DataFrame:
        """The requests that did not fail."""
        return self.requests[~self.requests["failed"]]

    @cached_property
    def drafting(self) -> Drafting:
        """What drafting gave each of `requests`."""
        return drafting(self.requests, self.steps)

    @property
    def rounds(self) -> int:
        """How many rounds were finished."""
        return int(self.visits["round"].nunique())


@dataclass(frozen=True)
class Tables:
    """Everything that was recorded, finished visits only.

    `visits` has a row per visit; `requests` one per request, with its visit's cell, arm, round and role, its share of
    the window (`window_tokens`, `window_wall_s`, ...), and `number`, its place in `steps`. Small numbers stand for
    names: `prompt` for what was in it, `asked` for (request, prompt), `pair` for (asked, round), `turn` for (request,
    round).
    """

    visits: pd.DataFrame
    requests: pd.DataFrame
    steps: Steps

    def samples(self, role: str = "measure") -> dict[tuple[str, str], Sample]:
        """Return what was recorded with `role`, by (cell, arm)."""
        visits = self.visits[self.visits["role"] == role]
        groups = dict(iter(self.requests[self.requests["role"] == role].groupby(["cell", "arm"])))
        found = {}
        for (cell, arm), part in visits.groupby(["cell", "arm"]):
            requests = groups.get((cell, arm), self.requests.iloc[:0])
            steps = self.steps.of(requests["number"].to_numpy())
            found[str(cell), str(arm)] = Sample(part, requests, steps)
        return found


def read_tables(lines: Iterable[Mapping[str, Any]]) -> Tables:
    """Gather `lines` into tables.

    Raises:
        InfrastructureError: a line lacks what its kind must have, or a visit holds a request twice.

    """
    starts, ends, requests, steps = [], [], [], StepsBuilder()
    for number, line in enumerate(lines, start=1):
        try:
            if line["kind"] == "request":
                requests.append(_request_row(line, steps))
            elif line["kind"] == "visit_start":
                starts.append([line[name] for name in (*KEY, *VISIT)])
            elif line["kind"] == "visit_end":
                ends.append(_end_row(line))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InfrastructureError(
                f"records.jsonl, line {number}: is not a whole record ({type(error).__name__}: {error}).",
                remedy="The file was edited or damaged; restore it from a copy.",
            ) from error
    try:
        visits = _visits(starts, ends)
        return Tables(visits, _requests(requests, visits), steps.build())
    except (TypeError, ValueError) as error:
        raise InfrastructureError(
            f"records.jsonl: a field holds something else than it should: {error}.",
            remedy="The file was edited or damaged; restore it from a copy.",
        ) from error


def _request_row(line: Mapping[str, Any], steps: StepsBuilder) -> tuple[Any, ...]:
    """Return the columns of one request; its steps go to `steps`. Ids become bytes: compact, and quick to compare."""
    ids, text = line.get("output_ids"), line.get("output_text")
    share = line.get("window") or {}
    failed = line.get("error") is not None
    packed = None if ids is None else array("i", ids).tobytes()
    return (
        *[line[name] for name in (*KEY, *ASKED)],
        *[line.get(name) for name in TOLD],
        failed,
        packed,
        steps.add(None if failed else line.get("steps")),
        *[share.get(name) for name in SHARE],
        *summed_row({} if failed else line),
        packed if packed is not None or text is None else _characters(text),
        _chunks(line.get("chunks")),
    )


def _characters(text: str) -> bytes:
    """Return the text as 32-bit characters: to compare, and to find where two part, as with tokens."""
    return text.encode("utf-32-le", "surrogatepass")


def _chunks(told: Mapping[str, Any] | None) -> NDArray[np.float64] | None:
    """Return [2, C]: the arrival and the tokens of each chunk."""
    return None if told is None else np.array([told["at_s"], told["tokens"]], dtype=np.float64)


def _end_row(line: Mapping[str, Any]) -> list[Any]:
    client = line.get("client") or {}
    told = {
        **line,
        "lag_p99_s": client.get("lag_p99_s"),
        "client_cpu_share": client.get("cpu_share"),
    }
    return [
        *(told.get(name) for name in (*KEY, *END)),
        line.get("acceptance"),
        line.get("backend") or {},
    ]


def _visits(starts: list[list[Any]], ends: list[list[Any]]) -> pd.DataFrame:
    """Join starts with ends: a visit without an end falls out, of several ended attempts the last stays."""
    began = pd.DataFrame(starts, columns=[*KEY, *VISIT])
    ended = _numeric(pd.DataFrame(ends, columns=[*KEY, *END, "counters", "backend"]), END)
    visits = began.merge(ended, on=KEY)
    return visits.drop_duplicates("visit", keep="last").reset_index(drop=True)


def _requests(rows: list[tuple[Any, ...]], visits: pd.DataFrame) -> pd.DataFrame:
    """Give each request its visit's cell, arm, round and role; requests of unfinished visits fall out."""
    window = [f"window_{name}" for name in SHARE]
    columns = [*KEY, *ASKED, *TOLD, "failed", "ids", "number", *window, *SUMMED, *SAID]
    frame = pd.DataFrame(rows, columns=columns)
    frame = _with_sums(_numeric(frame, [*TOLD, *window, *SUMMED[:-1]]))
    frame["failed"] = frame["failed"].astype(bool)
    requests = frame.merge(visits[[*KEY, *VISIT]], on=KEY)
    twice = requests[requests.duplicated(["visit", "request"])]
    if len(twice):
        first = twice.iloc[0]
        raise InfrastructureError(
            f"records.jsonl: request {first['request']} stands twice in visit {first['visit']}.",
            remedy="The file was edited or damaged; restore it from a copy.",
        )
    return requests.assign(
        prompt=pd.factorize(requests["prompt_sha256"])[0],
        asked=_numbered(requests, ASKED),
        pair=_numbered(requests, [*ASKED, "round"]),
        turn=_numbered(requests, ["request", "round"]),
    )


def _with_sums(frame: pd.DataFrame) -> pd.DataFrame:
    """Add to each share its wall seconds, and the seconds and tokens of its decoding; NaN without a share."""
    wall = frame[[f"window_{phase}" for phase in PHASES]].sum(axis=1, min_count=1)
    committed = frame["window_steps"] + frame["window_accepted"]
    return frame.assign(
        window_wall_s=wall,
        window_after_prefill_s=wall - frame["window_prefill_s"],
        window_decode_tokens=frame["window_decode_tokens"].fillna(committed),
    )


def _numbered(frame: pd.DataFrame, columns: list[str]) -> "pd.Series[int]":
    """Number the distinct values of `columns` in the order of their appearance."""
    return frame.groupby(columns, sort=False).ngroup()


def _numeric(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Make `columns` floats, null as NaN."""
    return frame.astype(dict.fromkeys(columns, "float64"))
