"""The known-answer pair gives the known answer, from its files and through the engine."""

from pathlib import Path

import pytest

from dflash_bench.engine.loop import Step, generate
from dflash_bench.engine.methods import dflash_checkpoint
from dflash_bench.engine.methods.dflash import DFlashDrafter
from dflash_bench.engine.request import Request
from dflash_bench.engine.sampling import Sampling
from dflash_bench.engine.target import Target
from dflash_bench.lab import markov, tokenizer


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Build the pair into a fresh folder."""
    folder = tmp_path_factory.mktemp("markov")
    markov.build(folder / "target", folder / "drafter")
    return folder / "target", folder / "drafter"


def test_it_accepts_0_0_1_repeating(pair: tuple[Path, Path]) -> None:
    target, words = Target.load(pair[0]), tokenizer.load(pair[0])
    drafter = DFlashDrafter(dflash_checkpoint.load(pair[1]), target)
    prompt = tuple(tokenizer.encode(words, "abc"))
    request = Request("0", prompt, 40, target.eos_ids, key=0)
    events = list(generate(target, drafter, [request], batch_size=1, sampling=Sampling()))
    rows = [row for event in events if isinstance(event, Step) for row in event.rows]
    text = words.decode([events[0].first_token, *(t for row in rows for t in row.tokens)])  # type: ignore[union-attr]
    assert text == "dabc" * 10
    assert [row.accepted for row in rows[:-1]] == [(0, 0, 1)[i % 3] for i in range(len(rows) - 1)]
    assert all(row.drafted == 7 for row in rows)


def test_both_folders_are_small(pair: tuple[Path, Path]) -> None:
    size = sum(f.stat().st_size for folder in pair for f in folder.glob("*.safetensors"))
    assert size < 500_000


def test_the_tokenizer_has_bytes_special_tokens_and_one_merge(pair: tuple[Path, Path]) -> None:
    words = tokenizer.load(pair[0])
    assert len(words) == 4 + 256 + 1
    assert len(tokenizer.encode(words, "zz")) == 1
    assert words.decode(tokenizer.encode(words, "any text: ä!")) == "any text: ä!"
