"""A backend in a process and environment of its own, asked through a pipe: one JSON object a line, one answer to each.

The far end is `workers/serve.py`, whose docstring has the lines. A worker whose pipe is closed, by us or because we
were killed, ends at once by itself: nothing of ours stays behind, and its memory is back for the next arm.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dflash_bench.errors import BenchError, ConfigError, InfrastructureError
from dflash_bench.runners.server.process import log_tail
from dflash_bench.runners.workers import serve

GRACE_S = 10.0


class Failed(BenchError):
    """The worker lives, and could not do what it was asked."""


class Worker:
    """One running worker; `hello` is what it said of itself: backend, versions, python."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        """Start `argv` with exactly the variables `env`; what it prints goes to a new file `log`."""
        self.argv, self.log = tuple(argv), log
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
                    encoding="utf-8",
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
        with suppress(BrokenPipeError):  # it has ended: the answer says so
            self._process.stdin.write(json.dumps({"op": operation, **message}) + "\n")
            self._process.stdin.flush()
        answer = self._answer(f"at '{operation}'")
        if "error" not in answer:
            return answer
        if answer["refused"]:
            raise ConfigError(answer["error"], remedy="Change the arm, or take another runner.")
        raise Failed(answer["error"], remedy=f"Its log has the whole story: {self.log}")

    def close(self) -> None:
        """Let it end; after ten seconds, end it. Nothing is left running."""
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what was not sent yet can no longer be
                if pipe is not None:
                    pipe.close()
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answer(self, when: str) -> dict[str, Any]:
        assert self._process.stdout is not None, "a pipe was asked for"
        line = self._process.stdout.readline()
        if line.endswith("\n"):
            answer: dict[str, Any] = json.loads(line)
            return answer
        code = self._process.wait()
        raise InfrastructureError(
            f"The worker {self.argv[-1]} ended {when}, with exit code {code}. The end of its log, {self.log}:\n"
            f"{log_tail(self.log)}",
            remedy="Look at the log; `dflash-bench doctor` tells what the backend lacks.",
        )
