"""Every error that a user can cause or meet: a sentence, a remedy, and the exit code it ends with.

    BenchError                exit 1   unexpected
    ├── ConfigError           exit 2   what the user wrote: a key, a value, a file
    ├── InfrastructureError   exit 6   disk, network, a backend that died
    └── Interrupted           exit 130 stopped by the user; `--resume` goes on

The CLI prints the message and, below it, the remedy; never a traceback for one of these.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class BenchError(Exception):
    """A failure that a person can act on.

    `message` is one clear sentence that names the file, the key and the value; `remedy` says what to do.
    """

    exit_code = 1

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class ConfigError(BenchError):
    """What the user asked for cannot be done as written."""

    exit_code = 2


class InfrastructureError(BenchError):
    """The machine, the disk, the network or a backend failed."""

    exit_code = 6


class Interrupted(BenchError):
    """The user stopped the run; what was finished is kept and can be resumed."""

    exit_code = 130


def printable(text: str) -> str:
    """Return `text` without control characters: a name must not steer the terminal that shows it."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "Did you mean 'x'? Known: a, b, c." for an unknown `name`."""
    names = sorted(set(known))
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"Did you mean '{close[0]}'? " if close else ""
    return f"{hint}Known: {', '.join(names)}."
