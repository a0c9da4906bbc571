"""The far end of a worker's pipe: `python serve.py BACKEND.py` answers requests, one JSON object a line.

Runs under a backend's own Python, so it imports the standard library alone; BACKEND.py is such a script beside it, with
`versions()` and `load(settings)`, whose result has `facts` and `generate(request)`. The lines, ours and its answers:

                      {"protocol": 1, "backend": ..., "versions": {...}, "python": ...}      first of all, unasked
{"op": "load", ...}   {"facts": {...}, "load_s": ...}
{"op": "run", ...}    {"tokens": [...], "sizes": [...], "at_s": [...], ...}   (`runners/worker_report.py`)
{"op": "close"}       {}
                      {"error": "ValueError: ...", "refused": bool}           instead of these; the traceback is logged

Three habits keep the pipe whole. The real stdout is set aside before the backend is imported, so that what a library
prints goes to the log. A thread reads stdin all the time: when it closes, whoever asked is gone, and the process ends
at once, in the middle of a request if need be. Times are this process's own, so the pipe costs no request anything.
"""

import importlib
import json
import os
import platform
import queue
import sys
import threading
import time
import traceback
import types
from pathlib import Path
from typing import Any, TextIO

PROTOCOL = 1


def main(backend_file: str) -> None:
    """Answer until told to close."""
    answers = _set_stdout_aside()
    asked: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(asked,), daemon=True).start()
    backend = _imported(Path(backend_file))
    versions = backend.versions()
    hello = {"protocol": PROTOCOL, "backend": Path(backend_file).stem, "versions": versions}
    _say(answers, {**hello, "python": platform.python_version()})
    arm: Any = None
    while True:
        message = json.loads(asked.get())
        operation = message.pop("op")
        if operation == "close":
            _say(answers, {})
            return
        try:
            if operation == "load":
                began = time.perf_counter()
                arm = backend.load(message)
                _say(answers, {"facts": arm.facts, "load_s": time.perf_counter() - began})
            else:
                _say(answers, arm.generate(message))
        except Exception as error:
            traceback.print_exc()
            refused = isinstance(error, backend.Refused)
            name = "" if refused else f"{type(error).__name__}: "
            _say(answers, {"error": f"{name}{error}", "refused": refused})


def _set_stdout_aside() -> TextIO:
    """Return the real stdout; whatever is printed from now on goes to stderr, the log."""
    real = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return real


def _read(asked: "queue.Queue[str]") -> None:
    """Pass lines on; end the process when there will be no more."""
    for line in sys.stdin:
        asked.put(line)
    os._exit(0)


def _imported(file: Path) -> Any:
    """Import a script as a member of a package made of its folder, so that it can import those beside it by `.name`."""
    package = types.ModuleType("worker")
    package.__path__ = [str(file.parent)]
    sys.modules["worker"] = package
    return importlib.import_module(f"worker.{file.stem}")


def _say(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its files are not top-level modules
    main(sys.argv[1])
