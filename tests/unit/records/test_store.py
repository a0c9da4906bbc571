"""The record file survives what happens to files: kills, full disks, a second process, an editor."""

import errno
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_bench.errors import ConfigError, InfrastructureError
from dflash_bench.records.schema import RequestRecord, VisitEnd, VisitStart
from dflash_bench.records.store import FILE, Writer, appending, finished_visits, read_lines


def start(visit: str, attempt: int = 1) -> VisitStart:
    return VisitStart(
        visit=visit,
        attempt=attempt,
        cell="c",
        arm="ar",
        round=1,
        role="measure",
        time="2026-01-01T00:00:00",
        load_average=None,
    )


def end(visit: str, attempt: int = 1) -> VisitEnd:
    return VisitEnd(
        visit=visit,
        attempt=attempt,
        wall_s=1.5,
        cpu_s=None,
        window_wall_s=None,
        window_cpu_s=None,
        occupancy=None,
        steps=None,
        row_steps=None,
        requests=0,
        failed=0,
        load_average=None,
    )


@pytest.mark.parametrize("text", ["plain", "ünïcode 🙂", "line\nbreak", "\u2028", '"quoted"', ""])
def test_a_record_reads_back_as_it_was_written(tmp_path: Path, text: str) -> None:
    record = RequestRecord(
        visit="v",
        attempt=1,
        request="r",
        prompt_sha256="0",
        prompt_tokens=3,
        output_ids=(1, 2),
        output_text=text,
        ttft_s=0.1 + 0.2,
    )
    with appending(tmp_path) as writer:
        writer.write(record)
    assert list(read_lines(tmp_path)) == [json.loads(record.model_dump_json())]


def test_appending_keeps_what_is_there(tmp_path: Path) -> None:
    for visit in ("a", "b"):
        with appending(tmp_path) as writer:
            writer.write(start(visit))
            writer.sync()
    assert [line["visit"] for line in read_lines(tmp_path)] == ["a", "b"]


@given(cut=st.integers(1, 200))
def test_a_kill_in_the_middle_of_a_line_loses_that_line_alone(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    with appending(folder) as writer:
        writer.write(start("a"))
        writer.write(end("a"))
        writer.write(start("b"))
    path = folder / FILE
    whole = path.read_bytes()
    last = len(whole.splitlines(keepends=True)[-1])
    path.write_bytes(whole[: -min(cut, last)])
    assert [line["kind"] for line in read_lines(folder)] == ["visit_start", "visit_end"]
    with appending(folder) as writer:
        writer.write(start("b", attempt=2))
    assert [line["visit"] for line in read_lines(folder)] == ["a", "a", "b"]


def test_a_damaged_line_in_the_middle_is_refused_by_number(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"kind": "visit_start", "visit": "a"}\n{"kind"\n{}\n')
    with pytest.raises(InfrastructureError, match="line 2: is not a record"):
        list(read_lines(tmp_path))


@pytest.mark.parametrize(
    "line", ["[1]", '{"a": 1}', '{"kind": "other", "visit": "a"}', "1", "null"]
)
def test_what_is_no_record_is_refused_by_number(tmp_path: Path, line: str) -> None:
    (tmp_path / FILE).write_text(line + "\n")
    with pytest.raises(InfrastructureError, match="line 1: is not a record"):
        list(read_lines(tmp_path))


def test_a_folder_in_the_records_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(InfrastructureError, match="cannot be read"):
        list(read_lines(tmp_path))


def test_a_second_writer_on_one_folder_is_refused(tmp_path: Path) -> None:
    with (
        appending(tmp_path),
        pytest.raises(ConfigError, match="another process"),
        appending(tmp_path),
    ):
        pass


def test_a_folder_without_records_reads_as_empty(tmp_path: Path) -> None:
    assert list(read_lines(tmp_path)) == []


def test_only_a_visit_with_an_end_is_finished(tmp_path: Path) -> None:
    with appending(tmp_path) as writer:
        for line in (start("a"), end("a"), start("b"), start("b", attempt=2)):
            writer.write(line)
    ended, attempts = finished_visits(read_lines(tmp_path))
    assert ended == {"a"}
    assert attempts == {"a": 1, "b": 2}


class FullDisk:
    """A stream whose disk has no space left."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def flush(self) -> None:
        pass


def test_a_full_disk_is_a_sentence_with_exit_code_6() -> None:
    writer = Writer(Path("results/x/records.jsonl"), FullDisk())  # type: ignore[arg-type]
    with pytest.raises(InfrastructureError, match="No space left on device") as caught:
        writer.write(start("a"))
    assert caught.value.exit_code == 6
    assert "--resume" in caught.value.remedy
