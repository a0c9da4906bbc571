"""The pipe to a worker: what passes through it, what breaks it, and that nothing is left behind."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from dflash_bench.errors import ConfigError, InfrastructureError
from dflash_bench.runners.worker.worker import Failed, Worker
from dflash_bench.runners.workers import serve

FAKE = Path(__file__).with_name("fake_backend.py")
COMMAND = (sys.executable, str(serve.__file__), str(FAKE))
RUN = {"prompt": [1, 2, 3, 4, 5], "max_new_tokens": 9}


@contextmanager
def _worker(tmp_path: Path, silence_s: float = 600, **options: Any) -> Iterator[Worker]:
    worker = Worker(COMMAND, os.environ, tmp_path / "logs" / "worker.log", silence_s)
    try:
        settings = {"method": "dflash", "block_size": 5, "options": options}
        assert worker.ask("load", settings)["facts"]["block_size"] == 5
        yield worker
    finally:
        worker.close()


def test_says_its_versions_and_answers(tmp_path: Path) -> None:
    with _worker(tmp_path) as worker:
        assert worker.hello["backend"] == "fake_backend"
        assert worker.hello["versions"] == {"fake": "1.0", "absent": None}
        answer = worker.ask("run", RUN)
        assert answer["tokens"] == [5, 4, 3, 2, 1]
        assert answer["passes"] == [[0, 0, 1], [4, 2, 3], [4, 2, 1]]
    assert not psutil.pid_exists(worker.pid)


def test_what_a_library_prints_goes_to_the_log_not_into_the_pipe(tmp_path: Path) -> None:
    with _worker(tmp_path) as worker:
        worker.ask("run", RUN)
    log = worker.log.read_text(encoding="utf-8")
    assert "a library's banner on stdout" in log
    assert "and another" in log


def test_a_refusal_is_a_config_error(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match=r"^this cannot be done here$"),
        _worker(tmp_path, refuse=1),
    ):
        pass


def test_an_error_of_the_backend_is_told_and_the_worker_lives(tmp_path: Path) -> None:
    with _worker(tmp_path, misbehave="raise") as worker:
        for _ in range(2):
            with pytest.raises(Failed, match="ValueError: no such token") as caught:
                worker.ask("run", RUN)
            assert str(worker.log) in caught.value.remedy
    assert "Traceback" in worker.log.read_text(encoding="utf-8")


def test_a_worker_that_ends_shows_the_end_of_its_log(tmp_path: Path) -> None:
    with (
        _worker(tmp_path, misbehave="die") as worker,
        pytest.raises(InfrastructureError, match="exit code 3") as caught,
    ):
        worker.ask("run", RUN)
    assert "and another" in caught.value.message


def test_a_program_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="/no/such/python cannot be started"):
        Worker(("/no/such/python", "serve.py"), os.environ, tmp_path / "log")


def test_another_protocol_is_refused_and_its_worker_ended(tmp_path: Path) -> None:
    script = tmp_path / "old.py"
    script.write_text("print('{\"protocol\": 0}', flush=True)\nimport sys\nsys.stdin.read()\n")
    with pytest.raises(InfrastructureError, match="speaks protocol 0, not 1"):
        Worker((sys.executable, str(script)), os.environ, tmp_path / "log")
    assert not _running(str(script))


@pytest.mark.parametrize(
    ("line", "shown"), [("Traceback of a library", "'Traceback of a library'"), ("[3]", "'[3]'")]
)
def test_a_line_that_is_no_answer_is_shown_with_the_log(
    tmp_path: Path, line: str, shown: str
) -> None:
    script = tmp_path / "chatty.py"
    script.write_text(f"import sys\nprint('a word', file=sys.stderr)\nprint('{line}')\n")
    with pytest.raises(InfrastructureError, match="at its start what is no answer") as caught:
        Worker((sys.executable, str(script)), os.environ, tmp_path / "log")
    assert shown in caught.value.message
    assert caught.value.message.endswith("a word")


def test_a_worker_that_hangs_is_not_waited_for_without_end(tmp_path: Path) -> None:
    script = tmp_path / "silent.py"
    script.write_text("import sys\nprint('loading', file=sys.stderr)\nsys.stdin.read()\n")
    with pytest.raises(
        InfrastructureError, match=r"(?s)said nothing for 2 s at its start.*loading$"
    ):
        Worker((sys.executable, str(script)), os.environ, tmp_path / "log", silence_s=2)
    assert not _running(str(script))


def test_an_answer_in_pieces_and_two_at_once_are_lines_all_the_same(tmp_path: Path) -> None:
    script = tmp_path / "pieces.py"
    script.write_text(
        "import sys, time\n"
        "sys.stdout.write('{\"protocol\"'); sys.stdout.flush(); time.sleep(0.2)\n"
        'sys.stdout.write(\': 1}\\n{"a": 1}\\n{"b": 2}\\n\'); sys.stdout.flush()\n'
        "sys.stdin.read()\n"
    )
    worker = Worker((sys.executable, str(script)), os.environ, tmp_path / "log")
    assert [worker.ask("run", {}), worker.ask("run", {})] == [{"a": 1}, {"b": 2}]
    worker.close()


def test_closing_ends_what_the_worker_started(tmp_path: Path) -> None:
    with _worker(tmp_path, misbehave="fork") as worker:
        child = psutil.Process(worker.ask("run", RUN)["child"])
        assert child.is_running()
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_closing_ends_a_worker_in_the_middle_of_a_request(tmp_path: Path) -> None:
    with _worker(tmp_path, misbehave="hang") as worker:
        assert worker._process.stdin is not None
        worker._process.stdin.write(b'{"op": "run", "prompt": [1], "max_new_tokens": 1}\n')
        worker._process.stdin.flush()
        _until(lambda: "and another" in worker.log.read_text(encoding="utf-8"))
        assert psutil.pid_exists(worker.pid)
    assert not psutil.pid_exists(worker.pid)
    assert worker._process.returncode == 0, "it ended by itself"


def test_a_worker_dies_with_us_even_if_we_are_killed(tmp_path: Path) -> None:
    ours = (
        "import os, pathlib, sys\n"
        "from dflash_bench.runners.worker.worker import Worker\n"
        f"worker = Worker({COMMAND!r}, os.environ, pathlib.Path({str(tmp_path / 'log')!r}))\n"
        "print(worker.pid, flush=True)\n"
        "worker.ask('load', {'method': 'ar', 'options': {'misbehave': 'hang'}, 'block_size': None})\n"
        "worker.ask('run', {'prompt': [1], 'max_new_tokens': 1})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", ours], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        worker = psutil.Process(int(process.stdout.readline()))
    _until(lambda: "and another" in (tmp_path / "log").read_text(encoding="utf-8"))
    process.kill()
    process.wait()
    psutil.wait_procs([worker], timeout=30)
    assert not worker.is_running()


def _until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


def _running(word: str) -> bool:
    commands = (process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"]))
    return any(word in command for command in commands)
