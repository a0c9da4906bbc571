"""What is installed in a worker's environment, and the word for what it cannot do."""

from importlib.metadata import PackageNotFoundError, version


class Refused(Exception):
    """What was asked for cannot be done here: a sentence."""


def installed(*packages: str) -> dict[str, str | None]:
    """Return versions by package; None is not installed. Imports none of them."""
    return {name: _version(name) for name in packages}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
