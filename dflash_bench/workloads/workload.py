"""A workload: where its rows are, how a row becomes a question, and how it is filled to a context length.

One YAML per workload, `workloads/<name>.yaml` for ours; its fields are explained in workloads/README.md. A file of
plain prompts (.jsonl, .jsonl.gz, .json) is a workload too, with no template.
"""

import re
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    Field,
    PrivateAttr,
    field_validator,
    model_validator,
)

from dflash_bench.assets import asset, is_path, names
from dflash_bench.errors import ConfigError, did_you_mean
from dflash_bench.plan import workload_name
from dflash_bench.spec import Part, read_part
from dflash_bench.workloads.rows import is_unicode

AnySource = TypeVar("AnySource", bound="Source")
PROMPT_FILES = (".jsonl", ".jsonl.gz", ".json")


def _is_text(value: str) -> str:
    """Refuse "", which would end or cut everything, and half a surrogate pair, which no tokenizer can read."""
    if not value:
        raise ValueError("must not be empty")
    if not is_unicode(value):
        raise ValueError("holds a character that is not Unicode text")
    return value


Text = Annotated[str, AfterValidator(_is_text)]


class Hub(Part):
    """A data set of the Hugging Face hub; `rename` turns its field names into those of the authors' file."""

    id: str
    config: str | None = None
    split: str
    revision: str
    rename: dict[str, str] = Field(default_factory=dict)


class Select(Part):
    """Which rows are meant, by a number that they carry: first <= row[field] <= last."""

    field: str
    first: int
    last: int


class Source(Part):
    """Where rows come from, tried in this order: `files` in the user's data folder, `path`, `hub`.

    `files` are names in the authors' own format; `path` is a file beside the YAML, absolute once loaded.
    """

    files: tuple[str, ...] = ()
    path: str | None = None
    hub: Hub | None = None
    url: str | None = None
    select: Select | None = None

    @model_validator(mode="after")
    def _names_a_place(self) -> "Source":
        if not (self.files or self.path or self.hub):
            raise ValueError("give at least one of files, path and hub")
        return self


class Filler(Source):
    """Where the text of long contexts comes from; `drop` is a pattern of what is taken out of it."""

    template: Text
    drop: str | None = None

    @field_validator("drop")
    @classmethod
    def _is_a_pattern(cls, drop: str | None) -> str | None:
        try:
            re.compile(drop or "")
        except re.error as error:
            raise ValueError(f"is not a regular expression ({error})") from None
        return drop


class AnswerRule(Part):
    """Where the reference answer is: all of `field`, or what follows the last `after` in it."""

    field: str
    after: Text | None = None


class Workload(Part):
    """What is asked. Without a `template`, each row says itself what it asks (see `formats`).

    `path` is the file that it was loaded from, absolute; it is no key of the YAML, and "" for one made in memory.
    """

    name: str
    title: str
    version: int
    licence: str
    source: Source
    template: Text | None = None
    id: str | None = None
    answer: AnswerRule | None = None
    stop: tuple[Text, ...] = ()
    filler: Filler | None = None
    _path: str = PrivateAttr(default="")

    @property
    def path(self) -> str:
        """The YAML or the file of prompts, absolute."""
        return self._path


def load_workload(reference: str) -> Workload:
    """Return the workload that `reference` names: a bare name is ours, a path the user's YAML or prompts.

    Raises ConfigError naming the file and the key.
    """
    path = _located(reference)
    workload = _read(path) if path.suffix in {".yaml", ".yml"} else _wrap(path)
    workload._path = str(path)
    return workload


def _located(reference: str) -> Path:
    """Return the absolute path of the file that `reference` names, whose name must be one for results."""
    if is_path(reference):
        path = Path(reference).expanduser().resolve()
        if not workload_name(str(path)):
            raise ConfigError(
                f"workloads: {path} has no name before its ending; results are kept by that.",
                remedy="Rename the file, such as to mine.jsonl.",
            )
        return path
    known = names("workloads")
    if reference not in known:
        raise ConfigError(
            f"workloads: there is no workload '{reference}'. {did_you_mean(reference, known)}",
            remedy=f"A file of yours is written as a path: ./{reference}",
        )
    return asset("workloads", f"{reference}.yaml").resolve()


def _read(path: Path) -> Workload:
    """Read a workload's YAML; the paths in it become absolute."""
    workload = read_part(path, Workload, remedy="See workloads/README.md.")
    name = workload_name(str(path))
    if workload.name != name:
        raise ConfigError(
            f"{path}: name: {workload.name!r} is not the file's name up to its first dot, '{name}';"
            " results are kept by that.",
            remedy=f"Write `name: {name}`, or rename the file.",
        )
    filler = _anchored(workload.filler, path.parent) if workload.filler else None
    source = _anchored(workload.source, path.parent)
    return workload.model_copy(update={"source": source, "filler": filler})


def _anchored(source: AnySource, folder: Path) -> AnySource:
    """Make `path` absolute: it is relative to the YAML's folder."""
    if source.path is None:
        return source
    return source.model_copy(update={"path": str((folder / source.path).resolve())})


def _wrap(path: Path) -> Workload:
    """Make a workload of a file of prompts."""
    if not path.name.endswith(PROMPT_FILES):
        raise ConfigError(
            f"workloads: {path} is neither a workload (.yaml) nor prompts ({', '.join(PROMPT_FILES)}).",
            remedy="Give the file one of these endings.",
        )
    if not path.is_file():
        raise ConfigError(f"workloads: there is no file {path}.", remedy="Check the path.")
    return Workload(
        name=workload_name(str(path)),
        title=f"Prompts of {path.name}",
        version=1,
        licence="not stated",
        source=Source(path=str(path)),
    )
