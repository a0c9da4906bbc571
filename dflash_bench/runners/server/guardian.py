"""The keeper of one server: it dies with us, and all that it started dies with it.

Run as a script of its own between us and the server: only a process that outlives us can clean up after our SIGKILL. We
hold the other end of its stdin; end of file there means that we are gone, or want it gone. It takes down the server's
process group (SIGTERM, a grace, SIGKILL) and then every descendant, also those that left the group: on Linux the kernel
hands it the orphans of its tree (PR_SET_CHILD_SUBREAPER), and kills the server if the keeper itself is killed
(PR_SET_PDEATHSIG).

    guardian.py LOG GRACE_S COMMAND...      stdout: one line, `started PID` or `failed REASON`

Its exit code is the server's. Standard library only, and nothing of ours: it starts in an instant.
"""

import ctypes
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
PR_SET_CHILD_SUBREAPER = 36
LINUX = sys.platform == "linux"
TICK_S = 0.02


def main(arguments: list[str]) -> int:
    """Start the command, watch it and us, leave nothing behind.

    Returns the server's exit code, 128 + n where signal n ended it, as shells do.
    """
    log_path, grace_s, *command = arguments
    prctl = _prctl()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    wakes = _wakes_on(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    me = os.getpid()

    def dies_with_me() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != me:  # it died before the line above
            os._exit(1)

    try:
        with Path(log_path).open("ab", buffering=0) as log:
            server = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=dies_with_me if LINUX else None,
            )
    except OSError as error:
        print(f"failed {error}", flush=True)
        return 127
    print(f"started {server.pid}", flush=True)
    _wait_for_an_end(server, wakes)
    take_down(server, float(grace_s))
    code = server.returncode
    return code if code >= 0 else 128 - code


def take_down(server: "subprocess.Popen[bytes]", grace_s: float) -> None:
    """End the server's group politely, then all its descendants for certain."""
    # Elsewhere orphans go to init, out of our sight: remember them. On Linux none are lost,
    # and a remembered pid could be another's by now.
    family = set() if LINUX else descendants(os.getpid())
    _signal_group(server.pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and (server.poll() is None or descendants(os.getpid())):
        _reap(server.pid)
        time.sleep(TICK_S)
    _signal_group(server.pid, signal.SIGKILL)
    while left := _alive(family | descendants(os.getpid())):
        for pid in left:
            _signal(pid, signal.SIGKILL)
        server.poll()
        _reap(server.pid)
        time.sleep(TICK_S)
    server.wait()


def descendants(root: int) -> set[int]:
    """Return the pids below `root`, zombies left out."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    ahead = [root]
    while ahead:
        below = children.get(ahead.pop(), [])
        found.update(below)
        ahead += below
    return found


def _parents() -> list[tuple[int, int]]:
    """Return (pid, parent's pid) of every process that runs."""
    if not LINUX:
        table = subprocess.run(
            ["ps", "-axo", "pid=,ppid=,stat=,comm="], capture_output=True, text=True, check=True
        )
        rows = [line.split(None, 3) for line in table.stdout.splitlines()]
        return [
            (int(pid), int(parent))
            for pid, parent, state, name in rows
            if not state.startswith("Z") and not name.endswith("ps")
        ]
    found = []
    for entry in os.listdir("/proc"):  # noqa: PTH208  (names alone are wanted)
        if not entry.isdigit():
            continue
        try:
            # "pid (name) state ppid ...": the name may hold blanks and brackets, see proc(5).
            state, parent = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it ended meanwhile
        if state not in "ZX":
            found.append((int(entry), int(parent)))
    return found


def _alive(pids: set[int]) -> set[int]:
    return pids & {pid for pid, _ in _parents()}


def _wait_for_an_end(server: "subprocess.Popen[bytes]", wakes: int) -> None:
    """Return when the server has ended, our stdin was closed, or we were told to stop."""
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        selector.register(wakes, selectors.EVENT_READ)
        while server.poll() is None:
            for key, _ in selector.select():
                received = os.read(key.fd, 64)
                if key.fd != wakes:
                    if not received:
                        return
                elif set(received) - {int(signal.SIGCHLD)}:
                    return
            _reap(server.pid)


def _wakes_on(*signals: signal.Signals) -> int:
    """Return a file descriptor on which the number of each of `signals` arrives."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in signals:
        signal.signal(number, lambda *_: None)
    return reading


def _reap(server: int) -> None:
    """Collect the orphans that ended as our children; the server's own end is left to its Popen."""
    if not LINUX:
        return
    while True:
        try:
            # WNOWAIT looks first: waitpid(-1) would take the server's exit code away.
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid == server:
            return
        os.waitpid(ended.si_pid, 0)


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return  # all gone; macOS says EPERM of a group of zombies


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _prctl() -> Callable[[int, int], int]:
    """Return Linux's prctl(option, argument), loaded before the fork; elsewhere a function that does nothing."""
    if not LINUX:
        return lambda option, argument: 0
    library = ctypes.CDLL(None, use_errno=True)
    return lambda option, argument: int(library.prctl(option, argument, 0, 0, 0))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
