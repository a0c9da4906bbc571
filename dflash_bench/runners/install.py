"""The steps that fill an environment: each is printed as a command and logged; the first that fails ends it."""

import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from dflash_bench.errors import ConfigError, InfrastructureError
from dflash_bench.runners.launch import fill, paths
from dflash_bench.runners.recipe import Install, Recipe
from dflash_bench.runners.server.process import environment, log_tail

_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")
_NEWEST_MINOR = 20


class Installer:
    """Fills the environment in `folder`, made by `python`; appends what its steps print to `log`."""

    def __init__(self, folder: Path, python: Path, log: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.log = log
        self._maker = python
        self._python = str(folder / "bin" / "python")
        self._say = say

    def install(
        self, install: Install, variant: str, recipe: Recipe
    ) -> tuple[str, tuple[str, ...]]:
        """Run every step of `variant`; return the version that is there and all packages as `pip freeze` names them."""
        chosen = install.variants[variant]
        values = {**paths(recipe), "python": self._python, "env": self.folder}
        where = f"recipe {recipe.reference}: install.variants.{variant}"
        pip = fill(chosen.pip, values, f"{where}.pip")
        steps: list[Sequence[str]] = [(str(self._maker), "-m", "venv", str(self.folder))]
        if chosen.requirements:
            steps.append((self._python, *_PIP, "install", *pip, *chosen.requirements))
        if chosen.no_deps:
            steps.append((self._python, *_PIP, "install", "--no-deps", *pip, *chosen.no_deps))
        if chosen.uninstall:
            steps.append((self._python, *_PIP, "uninstall", "-y", *chosen.uninstall))
        steps += [fill(words, values, f"{where}.commands") for words in chosen.commands]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_bytes(b"")
        self._say(f"environment {self.folder}, variant {variant}; log {self.log}")
        for step in steps:
            self._run(step, chosen.env)
        version = self._told(fill(install.version, values, "install.version"), chosen.env)
        packages = self._told((self._python, *_PIP, "freeze"), chosen.env)
        if not version:
            raise InfrastructureError(
                f"the command of install.version printed nothing: {recipe.name} may not be installed.",
                remedy=f"Mend install.version of {recipe.reference}; the log is {self.log}.",
            )
        return version[-1], tuple(packages)

    def _run(self, words: Sequence[str], extra: Mapping[str, str]) -> None:
        """Run one step; what it says goes to the log."""
        with self.log.open("ab") as log:
            self._do(words, extra, log)

    def _told(self, words: Sequence[str], extra: Mapping[str, str]) -> list[str]:
        """Run a command and return the lines that it printed; only its complaints go to the log."""
        with TemporaryFile() as printed:
            self._do(words, extra, printed)
            printed.seek(0)
            lines = printed.read().decode("utf-8", errors="replace").splitlines()
        return [line.strip() for line in lines if line.strip()]

    def _do(self, words: Sequence[str], extra: Mapping[str, str], stdout: IO[bytes]) -> None:
        argv = [self._python if words[0] == "python" else words[0], *words[1:]]
        self._say("$ " + " ".join(argv))
        with self.log.open("ab") as log:
            log.write(f"$ {' '.join(argv)}\n".encode())
            log.flush()
            try:
                done = subprocess.run(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=log,
                    cwd=self.folder,
                    env=environment(extra, self.folder),
                    check=False,
                )
            except OSError as error:
                raise InfrastructureError(
                    f"{argv[0]} cannot be run: {error.strerror}.",
                    remedy="Install it, then run the same command again.",
                ) from error
        if done.returncode:
            raise InfrastructureError(
                f"a step ended with exit code {done.returncode}: {' '.join(argv)}\n{log_tail(self.log)}",
                remedy=f"The whole log is {self.log}. The same command begins afresh.",
            )


def interpreter(versions: str) -> Path:
    """Return a Python that fits `versions`, such as ">=3.10,<3.14": this one, else the newest on the PATH."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        wanted = SpecifierSet(versions)
    except InvalidSpecifier:
        raise ConfigError(
            f"install.python: '{versions}' is not a set of versions.",
            remedy='Write it as ">=3.10,<3.14".',
        ) from None
    if platform.python_version() in wanted:
        return Path(sys.executable)
    for minor in range(_NEWEST_MINOR, 8, -1):
        program = shutil.which(f"python3.{minor}")
        if program is not None and (found := _version(program)) is not None and found in wanted:
            return Path(program)
    raise ConfigError(
        f"no Python {versions} is on the PATH; this one is {platform.python_version()}.",
        remedy="Install one, such as with `uv python install` or pyenv, and put it on the PATH.",
    )


def _version(program: str) -> str | None:
    """Return the version of a Python; None for one that does not run, such as a shim without its interpreter."""
    code = "import platform; print(platform.python_version())"
    done = subprocess.run([program, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None
