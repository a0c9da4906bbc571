"""Nothing of a server outlives its visit, and a server that does not start says why."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from dflash_bench.errors import InfrastructureError
from dflash_bench.runners.machine import Gpu
from dflash_bench.runners.server import guardian
from dflash_bench.runners.server import process as lives
from dflash_bench.runners.server.process import ServerProcess, environment, free_port, log_tail

ROOT = Path(__file__).resolve().parents[3]
SERVER = ROOT / "tests" / "fakes" / "forking_server.py"
PATIENCE_S = 60.0

# A program of ours that starts a server and then waits for its end, whatever that is.
OURS = """
import sys, time
from pathlib import Path
from dflash_bench.runners.server.process import ServerProcess, environment
server = ServerProcess.start(sys.argv[2:], environment({}), Path(sys.argv[1]), grace_s=0.2)
print("up", flush=True)
time.sleep(600)
"""

Start = Callable[..., tuple[ServerProcess, int, Path]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the forking server; whatever a test leaves is stopped."""
    started: list[ServerProcess] = []

    def begin(*options: str) -> tuple[ServerProcess, int, Path]:
        port, pids = free_port(), tmp_path / "pids"
        argv = [sys.executable, str(SERVER), str(port), str(pids), *options]
        server = ServerProcess.start(
            argv, environment({}), tmp_path / "logs" / "s.log", grace_s=0.2
        )
        started.append(server)
        return server, port, pids

    yield begin
    for server in started:
        server.stop()


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.02)
    return False


def family_of(pids: Path) -> list[int]:
    assert eventually(lambda: pids.exists() and len(pids.read_text().split()) == 3)
    return [int(pid) for pid in pids.read_text().split()]


@pytest.mark.parametrize("options", [(), ("--stubborn",)], ids=["polite", "ignores SIGTERM"])
def test_stop_leaves_no_process_of_the_tree(start: Start, options: tuple[str, ...]) -> None:
    server, port, pids = start(*options)
    server.wait_healthy(f"http://127.0.0.1:{port}/health", PATIENCE_S)
    family = family_of(pids)
    assert server.pids() == set(family)
    assert server.pid == family[0]
    assert server.rss_bytes() > 0
    server.stop()
    assert not [pid for pid in family if runs(pid)]
    server.stop()


@pytest.mark.skipif(shutil.which("ps") is None, reason="the way of macOS asks ps")
@pytest.mark.parametrize("options", [(), ("--stubborn",)], ids=["polite", "ignores SIGTERM"])
def test_stop_leaves_no_process_where_the_kernel_does_not_help(
    start: Start, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = Path(guardian.__file__).read_text(encoding="utf-8")
    plain = tmp_path / "guardian.py"
    plain.write_text(source.replace('LINUX = sys.platform == "linux"', "LINUX = False"))
    assert plain.read_text() != source
    monkeypatch.setattr(guardian, "__file__", str(plain))
    server, port, pids = start(*options)
    server.wait_healthy(f"http://127.0.0.1:{port}/health", PATIENCE_S)
    family = family_of(pids)
    monkeypatch.setattr(guardian, "LINUX", False)
    assert set(family) <= server.pids()
    server.stop()
    assert not [pid for pid in family if runs(pid)]


def test_health_is_waited_for(start: Start) -> None:
    server, port, _ = start("--not-ready", "2")
    assert server.wait_healthy(f"http://127.0.0.1:{port}/health", PATIENCE_S) > 0
    assert server.log_tail().count("asked /health") == 3
    assert server.exit_code() is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_our_own_death_takes_the_whole_tree_down(tmp_path: Path, number: signal.Signals) -> None:
    port, pids = free_port(), tmp_path / "pids"
    argv = [sys.executable, str(SERVER), str(port), str(pids), "--stubborn"]
    command = [sys.executable, "-c", OURS, str(tmp_path / "s.log"), *argv]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as ours:
        assert ours.stdout is not None
        assert ours.stdout.readline() == b"up\n"
        family = family_of(pids)
        ours.send_signal(number)
        ours.wait()
        assert eventually(lambda: not any(runs(pid) for pid in family))


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_a_guardian_that_is_killed_takes_the_server_with_it(start: Start) -> None:
    server, port, pids = start("--stubborn")
    server.wait_healthy(f"http://127.0.0.1:{port}/health", PATIENCE_S)
    main, child, _ = family = family_of(pids)
    os.kill(psutil.Process(main).ppid(), signal.SIGKILL)
    assert eventually(lambda: not runs(main))
    assert eventually(lambda: server.exit_code() is not None)
    server.stop()
    assert not runs(child)
    os.kill(
        family[2], signal.SIGKILL
    )  # it left the group and lost its guardian: out of anyone's reach


def test_children_of_a_server_that_crashed_are_ended(start: Start) -> None:
    server, _, pids = start()
    family = family_of(pids)
    os.kill(family[0], signal.SIGKILL)
    assert eventually(lambda: server.exit_code() == 128 + signal.SIGKILL)
    assert not [pid for pid in family if runs(pid)]


def test_a_start_that_fails_shows_the_end_of_the_log(start: Start) -> None:
    server, port, _ = start("--fails")
    with pytest.raises(InfrastructureError, match="exit code 1 before it was ready") as caught:
        server.wait_healthy(f"http://127.0.0.1:{port}/health", PATIENCE_S)
    assert "loading the model\nCUDA out of memory" in caught.value.message
    assert str(server.log_path) in caught.value.remedy


def test_a_start_that_hangs_shows_the_end_of_the_log(start: Start) -> None:
    server, port, pids = start("--not-ready", "1000000")
    family_of(pids)
    url = f"http://127.0.0.1:{port}/health"
    assert eventually(lambda: lives._status(url)[0] == 503)
    with pytest.raises(InfrastructureError, match=r"not ready after 0\.5 s.*503") as caught:
        server.wait_healthy(url, 0.5)
    assert "asked /health" in caught.value.message


def test_a_program_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match=r"/no/such/python cannot be started: .*No such"):
        ServerProcess.start(["/no/such/python"], environment({}), tmp_path / "log")


def test_a_server_gets_its_variables_and_neither_our_packages_nor_a_proxy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/ours")
    monkeypatch.setenv("NO_PROXY", "intranet")
    monkeypatch.setenv("PATH", "/usr/bin")
    found = environment({"VLLM_SERVER_DEV_MODE": "1"}, tmp_path)
    assert "PYTHONPATH" not in found
    assert found["NO_PROXY"] == "intranet,127.0.0.1,localhost"
    assert found["PATH"] == f"{tmp_path}/bin:/usr/bin"
    assert found["VLLM_SERVER_DEV_MODE"] == "1"
    assert environment({"PYTHONPATH": "/theirs"})["PYTHONPATH"] == "/theirs"


def test_the_tail_of_a_log_has_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n\n".join(f"line {number}" for number in range(40)))
    assert log_tail(log).splitlines() == [f"line {number}" for number in range(25, 40)]
    log.write_text("\n")
    assert log_tail(log) == "(the log is empty)"
    assert "cannot be read" in log_tail(tmp_path / "none")


GB = 10**9


def readings(monkeypatch: pytest.MonkeyPatch, *used: int) -> list[int]:
    """Make the GPU say each of `used` in turn, then the last for ever; return what was not yet said."""
    left = list(used)

    def say() -> list[Gpu]:
        return [gpu(left.pop(0) if len(left) > 1 else left[0])]

    monkeypatch.setattr(lives, "gpus", say)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return left


def gpu(used: int | None) -> Gpu:
    return Gpu(0, "H200", "1", 140 * GB, used)


def test_memory_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    left = readings(monkeypatch, 80 * GB, 40 * GB, 1 * GB)
    lives.memory_returned([gpu(1 * GB)])
    assert left == [1 * GB]


def test_memory_that_stays_away_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    readings(monkeypatch, 80 * GB)
    with pytest.raises(InfrastructureError, match=r"GPU 0 uses 80\.0 GB, 1\.0 GB before"):
        lives.memory_returned([gpu(1 * GB)], timeout_s=0)


def test_without_a_gpu_there_is_no_memory_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lives, "gpus", lambda: pytest.fail("nothing is to be asked"))
    lives.memory_returned([])
