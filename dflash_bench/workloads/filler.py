"""Real text for long contexts: rows of the workload's training split, in a different order before each prompt."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dflash_bench.errors import ConfigError
from dflash_bench.workloads.source import source_rows
from dflash_bench.workloads.template import fill
from dflash_bench.workloads.workload import Filler, Workload

OPENING_CHARS = 24


@dataclass(frozen=True)
class FillerSource:
    """The texts that may stand before a prompt, each once; `name` is the workload's, for messages."""

    name: str
    texts: tuple[str, ...]

    def openings(self, count: int, seed: int) -> list[int]:
        """Return `count` different texts, by index, so that no two prompts begin with the same one.

        A shared beginning is a prefix-cache hit, and a long prompt would cost nothing. Texts that differ within their
        first OPENING_CHARS characters, well below a cache block of 16 tokens, are therefore taken before others.
        """
        if count > len(self.texts):
            raise ConfigError(
                f"workloads: the filler of '{self.name}' has {len(self.texts)} texts, too few to begin"
                f" {count} prompts differently.",
                remedy=f"Ask for at most {len(self.texts)} prompts, or give a larger filler.",
            )
        shuffled = list(range(len(self.texts)))
        random.Random(f"{seed}/{self.name}").shuffle(shuffled)
        first: dict[str, int] = {}
        for index in shuffled:
            first.setdefault(self.texts[index][:OPENING_CHARS], index)
        distinct = set(first.values())
        return [*first.values(), *(index for index in shuffled if index not in distinct)][:count]

    def before(self, prompt: str, opening: int, seed: int) -> Iterator[str]:
        """Yield all texts once, in the order of the prompt with this id: `opening` first, the others shuffled."""
        others = [index for index in range(len(self.texts)) if index != opening]
        random.Random(f"{seed}/{prompt}").shuffle(others)
        for index in (opening, *others):
            yield self.texts[index]


def filler_source(workload: Workload, data_dir: str | None = None) -> FillerSource:
    """Return the filler texts of `workload`, found as its rows are.

    Where `data_dir` is the file with the rows, the filler's file is looked for beside it. Raises ConfigError where the
    workload names no filler.
    """
    filler = workload.filler
    if filler is None:
        raise ConfigError(
            f"sweep.context_length: the workload '{workload.name}' names no text to fill a context with.",
            remedy="Remove context_length, or write a workload YAML with `filler:` (workloads/README.md).",
        )
    if data_dir is not None and Path(data_dir).expanduser().is_file():
        data_dir = str(Path(data_dir).parent)
    texts = (_text(filler, fill(filler.template, row)) for row in source_rows(filler, data_dir))
    return FillerSource(workload.name, tuple(dict.fromkeys(text for text in texts if text)))


def _text(filler: Filler, text: str) -> str:
    return (re.sub(filler.drop, "", text) if filler.drop else text).strip()
