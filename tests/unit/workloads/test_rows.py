"""Rows are read one at a time, and a bad one is named by file and line."""

import gzip
import json
from pathlib import Path

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.workloads.rows import read_rows

ROWS = [{"prompt": "one"}, {"prompt": "zwei \u00fc"}]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", LINES),
        ("a.jsonl", "\ufeff" + LINES.replace("\n", "\r\n\r\n")),
        ("a.jsonl.gz", gzip.compress(LINES.encode())),
        ("a.json", json.dumps(ROWS)),
    ],
)
def test_each_format_gives_the_same_rows(tmp_path: Path, name: str, content: str | bytes) -> None:
    path = written(tmp_path / name, content)
    assert [row.fields for row in read_rows(path)] == ROWS


def test_nothing_is_read_beyond_what_is_asked(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", LINES + "not json")
    rows = read_rows(path)
    assert [next(rows).fields, next(rows).fields] == ROWS


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"a": 1}\n\n{"a": \n', r"a\.jsonl, line 3: is not JSON"),
        ("a.jsonl", '{"a": 1}\n[1]\n', r"a\.jsonl, line 2: is not an object"),
        ("a.jsonl", "[" * 100_000, r"a\.jsonl, line 1: is not JSON"),
        ("a.jsonl", '{"a": 1}\n{"a": %s}' % ("9" * 5000), r"a\.jsonl, line 2: holds a number"),
        ("a.json", '[{"a": %s}]' % ("9" * 5000), r"a\.json: holds a number"),
        ("a.json", "[" * 100_000, r"a\.json: is not JSON"),
        ("a.jsonl", "\n \n", r"a\.jsonl: holds no rows"),
        ("a.jsonl", b"\xff\xfe", r"a\.jsonl: cannot be read"),
        ("a.jsonl.gz", "plain", r"a\.jsonl\.gz: cannot be read"),
        ("a.jsonl.gz", gzip.compress(LINES.encode())[:-9], r"a\.jsonl\.gz: cannot be read"),
        ("a.json", '{"a": 1}', r"a\.json: holds no list"),
        ("a.json", "[]", r"a\.json: holds no rows"),
        ("a.json", '[{"a": 1}, 2]', r"a\.json, entry 2: is not an object"),
    ],
)
def test_a_bad_file_is_named_with_its_place(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    path = written(tmp_path / name, content)
    with pytest.raises(ConfigError, match=message):
        list(read_rows(path))
