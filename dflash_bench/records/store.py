"""The raw records on disk: `records.jsonl`, appended line by line, never rewritten.

A line is flushed as it is written and a visit is synced to the disk as it ends, so that a killed run loses
the visit it was in and nothing else. What a kill cut off in the middle of a line is put aside when the file
is next opened for writing.
"""

import errno
import fcntl
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from pydantic_core import from_json

from dflash_bench.errors import ConfigError, InfrastructureError
from dflash_bench.records.schema import Line

FILE = "records.jsonl"
KINDS = frozenset({"visit_start", "request", "visit_end"})


class Writer:
    """Appends lines to an open record file."""

    def __init__(self, path: Path, stream: TextIO) -> None:
        self._path = path
        self._stream = stream

    def write(self, line: Line) -> None:
        """Append one line; it survives a crash of this process once this returns."""
        with disk_errors(self._path):
            self._stream.write(line.model_dump_json() + "\n")
            self._stream.flush()

    def sync(self) -> None:
        """Make what was written survive a crash of the machine."""
        with disk_errors(self._path):
            os.fsync(self._stream.fileno())


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn a failing disk into a sentence."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise InfrastructureError(
            f"{path}: cannot be written: {error.strerror or error}.",
            remedy="Free some space, then go on with `dflash-bench sweep CONFIG --resume`."
            if full
            else "Choose a place that can be written, or mend this one.",
        ) from error


@contextmanager
def appending(folder: Path) -> Iterator[Writer]:
    """Open `folder`'s records for appending; a second process on the same folder is refused."""
    path = folder / FILE
    with disk_errors(path):
        stream = path.open("a", encoding="utf-8")
    try:
        _lock(stream, folder)
        _put_cut_line_aside(path)
        yield Writer(path, stream)
    finally:
        # A full disk refuses the close as well; the error that matters is already on its way.
        with disk_errors(path):
            stream.close()


def read_lines(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of `folder` as they were written; a cut last line is left out."""
    path = folder / FILE
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        return
    except OSError as error:
        raise InfrastructureError(
            f"{path}: cannot be read: {error.strerror}.", remedy="Check the file."
        ) from None
    with stream:
        for number, line in enumerate(stream, start=1):
            if not line.endswith(b"\n"):
                return
            yield _parsed(line, f"{path}, line {number}")


def _parsed(line: bytes, where: str) -> dict[str, Any]:
    """Return one record; what is none is refused by its line."""
    try:
        # Twice as fast as the standard library's, and records are most of a report's time.
        record = from_json(line)
        if record["kind"] in KINDS and isinstance(record["visit"], str):
            return dict(record)
        problem = "its kind or visit is unknown"
    except (ValueError, TypeError, KeyError) as error:
        problem = str(error)
    raise InfrastructureError(
        f"{where}: is not a record: {problem}.",
        remedy="The file was edited or damaged; restore it from a copy.",
    )


def finished_visits(lines: Iterable[dict[str, Any]]) -> tuple[set[str], Counter[str]]:
    """Return the ids of the visits that have an end, and how many attempts each visit has had."""
    ended: set[str] = set()
    attempts: Counter[str] = Counter()
    for line in lines:
        if line["kind"] == "visit_end":
            ended.add(line["visit"])
        elif line["kind"] == "visit_start":
            attempts[line["visit"]] += 1
    return ended, attempts


def _lock(stream: TextIO, folder: Path) -> None:
    try:
        fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(
            f"{folder}: another process is writing to this folder.",
            remedy="Wait for it, or choose another folder with -o.",
        ) from None


def _put_cut_line_aside(path: Path) -> None:
    """Move an unfinished last line into `records.cut`, so that appending starts on a fresh line."""
    with path.open("rb+") as stream:
        size = stream.seek(0, os.SEEK_END)
        start = _last_line_start(stream, size)
        if start == size:
            return
        stream.seek(start)
        with path.with_suffix(".cut").open("ab") as aside:
            aside.write(stream.read() + b"\n")
        stream.truncate(start)


def _last_line_start(stream: Any, size: int, block: int = 1 << 16) -> int:
    """Return the offset just past the last newline of a binary stream of `size` bytes."""
    end = size
    while end > 0:
        begin = max(0, end - block)
        stream.seek(begin)
        found = stream.read(end - begin).rfind(b"\n")
        if found >= 0:
            return int(begin + found + 1)
        end = begin
    return 0
