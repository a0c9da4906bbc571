"""A recipe: one YAML file that says how a backend is installed, started, asked and read.

Flags and endpoints change between versions of a backend, so they stand in a file that its user can mend: a bare name
is `runners/NAME.yaml` of ours (`runner: NAME`), a path is the user's own (`runner: ./mine.yaml`). Here is the file's
shape; `launch.py` fills its placeholders, `environments.py` installs it, `process.py` runs it. Its fields are explained
in `runners/README.md`.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from dflash_bench.assets import asset, is_path, names
from dflash_bench.errors import ConfigError, did_you_mean
from dflash_bench.spec import Part, read_part

Kind = Literal["in_process", "worker", "server", "openai"]
Verified = Literal["live", "recorded", "from source"]

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"  # also a folder's name

# One word of a command, or several that are left out together where one of their values is not known.
Word = str | tuple[str, ...]


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"a command's words are texts and numbers, not {value!r}; quote it")


def _words(value: Any) -> tuple[Word, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(
            "a command is a list of words, such as [--port, '{port}']; no shell reads it"
        )
    return tuple(
        tuple(_word(part) for part in word) if isinstance(word, list | tuple) else _word(word)
        for word in value
    )


def _variables(value: Any) -> Any:
    return {key: _word(entry) for key, entry in value.items()} if isinstance(value, dict) else value


Argv = Annotated[tuple[Word, ...], BeforeValidator(_words)]
Variables = Annotated[dict[str, str], BeforeValidator(_variables)]


class Variant(Part):
    """What one kind of machine installs, in this order; `{env}`, `{python}` and `{package}` are filled in commands."""

    requirements: tuple[str, ...] = ()
    no_deps: tuple[str, ...] = ()
    uninstall: tuple[str, ...] = ()
    commands: tuple[Argv, ...] = ()
    pip: Argv = ()
    env: Variables = Field(default_factory=dict)


class Install(Part):
    """An environment of the backend's own."""

    python: str = ">=3.11"
    variants: dict[str, Variant]
    version: Argv

    @model_validator(mode="after")
    def _has_a_variant(self) -> "Install":
        if not self.variants:
            raise ValueError("install.variants: name at least one, such as cpu or cuda")
        return self


class Extra(Part):
    """What one variant adds to every start, and the methods that it is `without`."""

    without: tuple[str, ...] = ()
    flags: Argv = ()
    env: Variables = Field(default_factory=dict)


class Preparation(Part):
    """A file made once and kept: `command` writes `{output}`, which becomes `makes` when it is whole."""

    makes: str
    command: Argv


class Start(Part):
    """The command, and what each choice of a spec adds to it."""

    command: Argv
    env: Variables = Field(default_factory=dict)
    variants: dict[str, Extra] = Field(default_factory=dict)
    dtype: dict[str, Argv] = Field(default_factory=dict)
    quantization: dict[str, Argv] = Field(default_factory=dict)
    methods: dict[str, Argv] = Field(default_factory=dict)
    matched: dict[str, Argv] = Field(default_factory=dict)
    prepare: tuple[Preparation, ...] = ()


class Health(Part):
    """Where a server says that it is ready (any 2xx), and how long it may take to get there."""

    path: str = "/health"
    timeout_s: Annotated[float, Field(gt=0)] = 600.0


class Ask(Part):
    """How requests are written: the dialect, the model's name in them, and what else goes into each body."""

    dialect: str
    stream: bool = True
    model: str = "{target}"
    path: str | None = None
    body: dict[str, Any] = Field(default_factory=dict)
    keep_alive: bool = True


class Counters(Part):
    """Where acceptance and load are counted."""

    path: str


class Info(Part):
    """Where a server says what it is."""

    version: str | None = None
    config: str | None = None


class Flush(Part):
    """The request that empties prefix caches; `ok` is a regular expression that its answer must hold."""

    method: Literal["GET", "POST"] = "POST"
    path: str
    ok: str | None = None


class Recipe(Part):
    """The whole file."""

    name: Annotated[str, Field(pattern=f"^{NAME}$")]
    title: str
    kind: Kind
    targets: str
    methods: dict[str, Verified] = Field(default_factory=dict)
    needs: str | None = None
    notes: str | None = None
    install: Install | str | None = None
    start: Start | None = None
    health: Health | None = None
    ask: Ask | None = None
    counters: Counters | None = None
    info: Info = Info()
    flush: Flush | None = None
    _path: Path | None = PrivateAttr(default=None)

    @property
    def path(self) -> Path | None:
        """The file it was read from."""
        return self._path

    @property
    def reference(self) -> str:
        """What a user writes to name it: the bare name if it is ours, else the path."""
        ours = self._path is None or self._path == asset("runners", f"{self.name}.yaml")
        return self.name if ours else str(self._path)

    @property
    def is_server(self) -> bool:
        """Whether it is asked over HTTP."""
        return self.kind in ("server", "openai")

    @property
    def environment(self) -> Install | None:
        """What its own environment holds; None where it needs none, or lives in this one."""
        return self.install if isinstance(self.install, Install) else None

    @property
    def digest(self) -> str:
        """The sha256 of everything in it, for the manifest."""
        return _digest(self.model_dump(mode="json"))

    def install_digest(self, variant: str) -> str:
        """Return the sha256 of what `variant` installs: an environment of another digest is another one."""
        install = self.environment
        assert install is not None, "callers ask recipes with an environment only"
        return _digest([install.python, install.variants[variant].model_dump(mode="json")])

    @model_validator(mode="after")
    def _is_whole(self) -> "Recipe":
        if self.kind == "in_process":
            return self
        if self.is_server and self.ask is None:
            raise ValueError("ask: is missing; a server needs a dialect, such as {dialect: openai}")
        if self.start is None:
            return self
        if self.is_server and self.health is None:
            raise ValueError("health: is missing; such as {path: /health}")
        if self.is_server and "{port}" not in json.dumps(self.start.model_dump(mode="json")):
            raise ValueError(
                "start.command: has no {port}; we choose it, so that no two servers meet"
            )
        for method in self.methods:
            if method not in self.start.methods:
                raise ValueError(
                    f"start.methods: lacks '{method}', which methods names (`{method}: []`)"
                )
        for key, known in (("methods", self.methods), ("matched", self.methods)):
            for method in getattr(self.start, key):
                if method not in known:
                    raise ValueError(
                        f"start.{key}: '{method}' is not in methods, which says how each was verified"
                    )
        for variant, extra in self.start.variants.items():
            if self.environment is not None and variant not in self.environment.variants:
                raise ValueError(f"start.variants: '{variant}' is not one of install.variants")
            for method in extra.without:
                if method not in self.methods:
                    raise ValueError(
                        f"start.variants.{variant}.without: '{method}' is not in methods"
                    )
        if self.flush is not None and self.flush.ok is not None:
            try:
                re.compile(self.flush.ok)
            except re.error as error:
                raise ValueError(f"flush.ok: is not a regular expression: {error}") from None
        return self


def load_recipe(reference: str | Path) -> Recipe:
    """Read the recipe of a bare name of ours, or the file at a path of the user's."""
    if isinstance(reference, Path) or is_path(reference):
        path = Path(reference).expanduser().resolve()
    else:
        known = names("runners")
        if reference not in known:
            raise ConfigError(
                f"there is no recipe '{reference}' in runners/.",
                remedy=did_you_mean(reference, known),
            )
        path = asset("runners", f"{reference}.yaml")
    recipe = read_part(path, Recipe, remedy="Mend the recipe; runners/README.md explains its keys.")
    recipe._path = path
    return recipe


def load_recipes() -> list[Recipe]:
    """Return the recipes of ours, by name."""
    return [load_recipe(name) for name in names("runners")]


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
