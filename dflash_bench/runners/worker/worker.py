"""A backend in a process and environment of its own, asked through a pipe: one JSON object a line, one answer to each.

The far end is `workers/serve.py`, whose docstring has the lines. A worker whose pipe is closed, by us or because we
were killed, ends at once by itself: nothing of ours stays behind, and its memory is back for the next arm. One that
says nothing for `silence_s` is taken to hang.
"""

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from dflash_bench.errors import BenchError, ConfigError, InfrastructureError
from dflash_bench.runners.server.process import log_tail
from dflash_bench.runners.workers import serve

GRACE_S = 10.0
SILENCE_S = 600.0
_SHOWN = 200  # bytes of a bad line


class Failed(BenchError):
    """The worker lives, and could not do what it was asked."""


class Worker:
    """One running worker; `hello` is what it said of itself: backend, versions, python."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        log: Path,
        silence_s: float = SILENCE_S,
    ) -> None:
        """Start `argv` with exactly the variables `env`; what it prints goes to a new file `log`.

        silence_s   seconds that it may take to an answer: its start, a model's loading, a whole request
        """
        self.argv, self.log, self._silence_s = tuple(argv), log, silence_s
        self._heard = b""  # what came behind the last line
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("wb") as stderr:
                # A session of its own: Ctrl-C is ours to handle, and it learns of our end by the pipe.
                self._process = subprocess.Popen(
                    self.argv,
                    env=dict(env),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    start_new_session=True,
                )
        except OSError as error:
            raise InfrastructureError(
                f"The worker {self.argv[0]} cannot be started: {error}.",
                remedy="Make its environment afresh: dflash-bench env create NAME --force.",
            ) from error
        try:
            self.hello = self._answer("at its start")
            if self.hello.get("protocol") != serve.PROTOCOL:
                raise InfrastructureError(
                    f"The worker {self.argv[-1]} speaks protocol {self.hello.get('protocol')}, not {serve.PROTOCOL}.",
                    remedy="Use the workers that came with this version of dflash-bench.",
                )
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, operation: str, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to `message`.

        Raises ConfigError for what the backend refuses, Failed for an error of its own, and InfrastructureError,
        with the end of its log, if it ended.
        """
        assert self._process.stdin is not None, "a pipe was asked for"
        line = json.dumps({"op": operation, **message}) + "\n"
        with suppress(BrokenPipeError):  # it has ended: the answer says so
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        answer = self._answer(f"at '{operation}'")
        if "error" not in answer:
            return answer
        if answer["refused"]:
            raise ConfigError(answer["error"], remedy="Change the arm, or take another runner.")
        raise Failed(answer["error"], remedy=f"Its log has the whole story: {self.log}")

    def close(self) -> None:
        """Let it end; after ten seconds, end it, and in any case what it started. Nothing is left running."""
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what was not sent yet can no longer be
                if pipe is not None:
                    pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        with suppress(ProcessLookupError, PermissionError):  # it has ended, and left nobody
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        deadline = time.monotonic() + GRACE_S
        while _alive(self.pid) and time.monotonic() < deadline:
            time.sleep(0.02)

    def _answer(self, when: str) -> dict[str, Any]:
        line = self._line(when)
        if not line.endswith(b"\n"):
            raise self._failed(f"ended {when}, with exit code {self._ended()}")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            shown = line[:_SHOWN].decode(errors="replace").rstrip()
            raise self._failed(f"said {when} what is no answer: {shown!r}")
        return answer

    def _line(self, when: str) -> bytes:
        """Return the next line of the pipe, or what came before its end."""
        pipe = self._process.stdout
        assert pipe is not None, "a pipe was asked for"
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while b"\n" not in self._heard:
                if not selector.select(self._silence_s):
                    raise self._failed(f"said nothing for {self._silence_s:g} s {when}")
                piece = os.read(pipe.fileno(), 1 << 16)
                if not piece:
                    break
                self._heard += piece
        line, newline, self._heard = self._heard.partition(b"\n")
        return line + newline

    def _ended(self) -> int | str:
        """Return the exit code of a worker whose pipe is closed; it may have closed that alone."""
        try:
            return self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            return "none yet"

    def _failed(self, how: str) -> InfrastructureError:
        return InfrastructureError(
            f"The worker {self.argv[-1]} {how}. The end of its log, {self.log}:\n{log_tail(self.log)}",
            remedy="Look at the log; `dflash-bench doctor` tells what the backend lacks, and server.silence_s is how"
            " long an answer may take.",
        )


def _alive(group: int) -> bool:
    """Tell whether a process of the group `group` still runs; a zombie holds no memory."""
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False
