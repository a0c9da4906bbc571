"""Read rows from a file: JSON lines, plain or gzipped, or one JSON list; one at a time, each knowing its place."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from dflash_bench.errors import ConfigError


class Row(NamedTuple):
    """One JSON object, and where it stands, for messages: `./mine.jsonl, line 3`."""

    where: str
    fields: dict[str, Any]


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of `path` in order, reading no further than asked. Blank lines are skipped.

    Raises ConfigError naming file and line: unreadable, not JSON, not an object, or no row at all.
    """
    rows = _list_rows(path) if path.suffix == ".json" else _line_rows(path)
    empty = True
    try:
        for row in rows:
            empty = False
            yield row
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}.", remedy="Check the file.") from error
    if empty:
        raise ConfigError(f"{path}: holds no rows.", remedy="Write one JSON object per line.")


def is_unicode(text: str) -> bool:
    """Tell whether `text` can be encoded: JSON and YAML can spell half a surrogate pair, which is no character."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _line_rows(path: Path) -> Iterator[Row]:
    with _opened(path) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                where = f"{path}, line {number}"
                yield Row(where, _object(where, _parsed(where, line)))


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")


def _list_rows(path: Path) -> Iterator[Row]:
    content = _parsed(str(path), path.read_text(encoding="utf-8-sig"))
    if not isinstance(content, list):
        raise ConfigError(
            f"{path}: holds no list of objects.", remedy="Write [{...}, {...}], or use .jsonl."
        )
    for number, entry in enumerate(content, start=1):
        where = f"{path}, entry {number}"
        yield Row(where, _object(where, entry))


def _parsed(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(
            f"{where}: is not JSON: {error}.", remedy="Mend the file there."
        ) from None
    except ValueError as error:  # Python reads no integer of more than some thousand digits
        raise ConfigError(
            f"{where}: holds a number that cannot be read: {error}.", remedy="Write it as a string."
        ) from None


def _object(where: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise ConfigError(
        f"{where}: is not an object of keys and values.",
        remedy='Write rows such as {"prompt": "Why is the sky blue?"}.',
    )
