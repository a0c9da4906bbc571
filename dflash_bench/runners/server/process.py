"""A server's life: started through its guardian, waited for, watched, and taken down whole.

Nothing of it may outlive its visit: not after an error, not after Ctrl-C, not after our own SIGKILL (`guardian.py`).
And the next arm starts on the machine that this one found: `memory_returned` waits until GPU memory is back.
"""

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psutil

from dflash_bench.errors import InfrastructureError
from dflash_bench.runners.machine import Gpu, gpus
from dflash_bench.runners.server import guardian

LOOPBACK = "127.0.0.1"
GRACE_S = 10.0
TAIL_LINES = 15
TAIL_WIDTH = 400  # an error of vLLM's can be one line of ten thousand characters
# Ours would load our packages into the server's interpreter.
_NOT_INHERITED = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
# A desktop's own use of a GPU moves by this much; the weights of a model that is worth a server are more.
_SLACK_BYTES = 512 * 1024 * 1024


class ServerProcess:
    """One running server."""

    def __init__(self, guard: "subprocess.Popen[str]", pid: int, log_path: Path) -> None:
        self._guard = guard
        self.pid = pid
        self.log_path = log_path
        self._stopped = False

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        env: Mapping[str, str],
        log_path: Path,
        cwd: Path | None = None,
        grace_s: float = GRACE_S,
    ) -> "ServerProcess":
        """Start `argv` with exactly the variables `env` (`environment`); its output goes to a new file `log_path`.

        Raises InfrastructureError where the program cannot be started.
        """
        log_path.parent.mkdir(parents=True, exist_ok=True)
        log_path.write_bytes(b"")
        # Isolated: no module beside the script, and no site-packages, can stand in for the standard library's.
        command = [sys.executable, "-I", "-S", guardian.__file__, str(log_path), str(grace_s)]
        guard = subprocess.Popen(
            [*command, *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
        assert guard.stdout is not None, "it is a pipe"
        said, _, rest = guard.stdout.readline().strip().partition(" ")
        if said != "started":
            guard.communicate()
            raise InfrastructureError(
                f"{argv[0]} cannot be started: {rest or 'its guardian failed'}.",
                remedy="Check that the environment is whole (`dflash-bench doctor`) and the recipe's start.command.",
            )
        return cls(guard, int(rest), log_path)

    def __enter__(self) -> "ServerProcess":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def exit_code(self) -> int | None:
        """Return the server's exit code (128 + n for signal n), or None while it lives."""
        return self._guard.poll()

    def pids(self) -> set[int]:
        """Return the pids of the server and of everything that it started."""
        return guardian.descendants(self._guard.pid)

    def rss_bytes(self) -> int:
        """Return the resident memory of the whole tree, pages that its processes share counted in each."""
        total = 0
        for pid in self.pids():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                total += psutil.Process(pid).memory_info().rss
        return total

    def log_tail(self, lines: int = TAIL_LINES) -> str:
        """Return the last `lines` of the log that are not blank."""
        return log_tail(self.log_path, lines)

    def died(self, doing: str) -> InfrastructureError:
        """Return the error of a server that ended by itself while `doing`, with the end of its log."""
        return InfrastructureError(
            f"the server ended with exit code {self.exit_code()} {doing}; its log ends:\n{self.log_tail()}",
            remedy=f"The whole log is {self.log_path}.",
        )

    def wait_healthy(self, url: str, timeout_s: float) -> float:
        """Wait until `url` answers 2xx; return the seconds that took.

        Raises InfrastructureError as soon as the server has ended, or after `timeout_s`; either shows the log's end.
        """
        began = time.monotonic()
        said = "nothing answered"
        while (waited := time.monotonic() - began) < timeout_s:
            if self.exit_code() is not None:
                raise self.died("before it was ready")
            status, said = _status(url)
            if 200 <= status < 300:
                return time.monotonic() - began
            time.sleep(0.1 if waited < 10 else 0.5)
        raise InfrastructureError(
            f"the server was not ready after {timeout_s:g} s: {url}: {said}; its log ends:\n{self.log_tail()}",
            remedy=f"The whole log is {self.log_path}. Raise server.start_timeout_s if it was still loading.",
        )

    def stop(self, timeout_s: float = 60.0) -> None:
        """Take the whole tree down and wait until none of it is left. Asked again, it does nothing.

        Raises InfrastructureError if something survives SIGKILL for `timeout_s` (a hung driver).
        """
        if self._stopped:
            return
        killed = self._guard.poll() is not None and self._guard.returncode < 0
        # Its guardian was killed: then what shares the server's process group is ours to end.
        orphans = _members(self.pid) if killed else set()
        for pipe in (self._guard.stdin, self._guard.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._guard.wait(timeout_s)
        except subprocess.TimeoutExpired:
            left = ", ".join(map(str, sorted(self.pids())))
            raise InfrastructureError(
                f"processes of the server survive SIGKILL for {timeout_s:g} s: {left}.",
                remedy="They wait in the kernel, mostly for a GPU or a disk; the machine may need a restart.",
            ) from None
        for process in orphans:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(orphans, timeout=timeout_s)
        self._stopped = True


def free_port() -> int:
    """Return a TCP port of this machine that is free now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def environment(extra: Mapping[str, str], venv: Path | None = None) -> dict[str, str]:
    """Return the variables of a server: the user's own, then `extra`; `venv`'s programs come first on the PATH.

    Proxies are bypassed for this machine. What would load our own packages there (PYTHONPATH) is not inherited. The
    result may hold secrets, such as keys of the user's: it is never written anywhere.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    if venv is not None:
        inherited["PATH"] = os.pathsep.join([str(venv / "bin"), inherited.get("PATH", os.defpath)])
        inherited["VIRTUAL_ENV"] = str(venv)
    for name in ("NO_PROXY", "no_proxy"):
        hosts = [inherited[name]] if inherited.get(name) else []
        inherited[name] = ",".join([*hosts, LOOPBACK, "localhost"])
    return {**inherited, **extra}


def log_tail(path: Path, lines: int = TAIL_LINES) -> str:
    """Return the last `lines` of the file that are not blank; a sentence if there is none."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - 64 * 1024))
            text = log.read().decode("utf-8", errors="replace")
    except OSError as error:
        return f"(the log cannot be read: {error})"
    kept = [line.rstrip()[:TAIL_WIDTH] for line in text.splitlines() if line.strip()]
    return "\n".join(kept[-lines:]) or "(the log is empty)"


def memory_returned(before: Sequence[Gpu], timeout_s: float = 30.0) -> None:
    """Wait until each GPU uses about as little memory as `before`, what `gpus()` said before the start.

    Raises InfrastructureError after `timeout_s`: the next arm would be measured with less. Without a GPU there is
    nothing to ask.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        held = _still_held(before, gpus()) if before else []
        if not held:
            return
        if time.monotonic() >= deadline:
            raise InfrastructureError(
                f"GPU memory did not come back within {timeout_s:g} s of the server's end: {'; '.join(held)}.",
                remedy="See with nvidia-smi who holds it; nothing else may use the GPUs during a run.",
            )
        time.sleep(0.5)


def _still_held(before: Sequence[Gpu], now: Sequence[Gpu]) -> list[str]:
    used = {gpu.index: gpu.memory_used_bytes for gpu in now}
    found = []
    for gpu in before:
        then, current = gpu.memory_used_bytes, used.get(gpu.index)
        if then is not None and current is not None and current > then + _SLACK_BYTES:
            found.append(f"GPU {gpu.index} uses {current / 1e9:.1f} GB, {then / 1e9:.1f} GB before")
    return found


def _members(group: int) -> set[psutil.Process]:
    """Return the processes of a process group."""
    found = set()
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, PermissionError):
            if os.getpgid(process.pid) == group:
                found.add(process)
    return found


def _status(url: str) -> tuple[int, str]:
    """Return the HTTP status of `url`, 0 where nothing answers, and what was said; no proxy is asked."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as answer:
            return answer.status, "it answered"
    except urllib.error.HTTPError as error:
        with error:
            return error.code, f"it answered {error.code} {error.reason}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        return 0, f"{getattr(error, 'reason', error)}"


def temporary_log(arm: str) -> Path:
    """Return a new empty file for what the process of an arm prints, where nobody named one."""
    handle, path = tempfile.mkstemp(prefix=f"dflash-bench-{arm}-", suffix=".log")
    os.close(handle)
    return Path(path)
