"""A real browser, spoken to in the DevTools protocol over two pipes: no driver and no web socket is needed.

Source: https://chromedevtools.github.io/devtools-protocol/ and Chromium's `--remote-debugging-pipe`: the browser reads
JSON messages on file descriptor 3 and writes them on 4, each ended by a zero byte.
"""

import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PATIENCE_S = 60.0


def find() -> str | None:
    """Return the path of a Chromium on this machine, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Tab:
    """A page in the browser; `events` holds all that the browser reported of it, in order."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = reading
        self._writing = writing
        self._rest = b""
        self._calls = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call `method` of the protocol and return its result."""
        self._calls += 1
        number = self._calls
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return dict(answer["result"])

    def open(self, page: Path, width: int, scheme: str = "light") -> None:
        """Open `page`, `width` CSS pixels wide, and wait until it has loaded."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not self.reported("Page.loadEventFired"):
            self.events.append(self._read())

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    def reported(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of all events called `method` since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def _read(self) -> dict[str, Any]:
        """Return the next message."""
        deadline = time.monotonic() + PATIENCE_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._reading], [], [], deadline - time.monotonic())
            chunk = os.read(self._reading, 1 << 16) if ready else b""
            if not chunk:
                raise RuntimeError("the browser said nothing more")
            self._rest += chunk
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))


@contextmanager
def browser(program: str, profile: Path) -> Iterator[Tab]:
    """Start the browser `program` on a fresh `profile` folder; yield a tab of it."""
    commands, writing = os.pipe()
    reading, answers = os.pipe()
    # Out of the way of 3 and 4, which the child's ends become.
    theirs = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (commands, answers)]
    os.close(commands)
    os.close(answers)

    silent = [(os.POSIX_SPAWN_OPEN, end, os.devnull, os.O_RDWR, 0) for end in (0, 1, 2)]
    pipes = [(os.POSIX_SPAWN_DUP2, end, place) for end, place in zip(theirs, (3, 4), strict=True)]
    arguments = [program, *FLAGS, f"--user-data-dir={profile}"]
    process = os.posix_spawn(program, arguments, os.environ, file_actions=[*silent, *pipes])
    for end in theirs:
        os.close(end)
    try:
        yield Tab(reading, writing)
    finally:
        os.close(writing)
        os.close(reading)
        os.kill(process, signal.SIGTERM)
        os.waitpid(process, 0)
