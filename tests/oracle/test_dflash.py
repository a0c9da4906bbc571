"""Our loop against the authors' and against transformers': the same tokens, the same count at every step."""

from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from dflash_bench.engine.target import Target
from tests.oracle import native, upstream
from tests.oracle.answers import Answer, accepted, drafter_of, ours
from tests.oracle.native import Native
from tests.oracle.pairs import Pair, lab, markov, random_weights
from tests.oracle.upstream import Upstream

# (pair, the largest block that its drafter was made for)
PAIRS = {"lab": 16, "markov": 8, "random-qwen3": 16, "random-llama": 16}
CASES = [
    (pair, block) for pair, most in PAIRS.items() for block in (1, 2, 4, 8, 16) if block <= most
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the random weights are written."""
    return tmp_path_factory.mktemp("oracle")


@pytest.fixture(scope="module", params=["upstream", "transformers"])
def oracle(request: pytest.FixtureRequest) -> str:
    """The other implementation's name; skipped, with the reason, where it is not installed."""
    if request.param == "transformers":
        pytest.importorskip(native.MODULE, reason="this transformers has no DFlash of its own")
    else:
        pytest.importorskip(upstream.MODULE, reason="PyPI's dflash is not installed: make oracle")
        if (found := metadata.version("dflash")) != upstream.VERSION:
            pytest.skip(f"dflash {found} is installed, the oracle is {upstream.VERSION}")
    return str(request.param)


@cache
def pair_of(name: str, folder: Path) -> Pair:
    if name == "lab":
        return lab()
    if name == "markov":
        return markov()
    return random_weights(name.removeprefix("random-"), folder / name)


@cache
def target_of(name: str, folder: Path) -> Target:
    return Target.load(pair_of(name, folder).target)


@cache
def model_of(name: str, folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(pair_of(name, folder).target, dtype=torch.float32)


@cache
def theirs(oracle: str, name: str, folder: Path) -> Upstream | Native:
    model, draft = model_of(name, folder), pair_of(name, folder).draft
    return (Upstream if oracle == "upstream" else Native)(model, draft)


@cache
def said(name: str, block_size: int, batch_size: int, folder: Path) -> Mapping[str, Answer]:
    pair, target = pair_of(name, folder), target_of(name, folder)
    return ours(target, drafter_of(target, pair.draft, block_size), pair.requests, batch_size)


@pytest.mark.parametrize(("name", "block_size"), CASES)
def test_tokens_and_accepted_counts_are_the_oracles(
    oracle: str, name: str, block_size: int, folder: Path
) -> None:
    other, requests = theirs(oracle, name, folder), pair_of(name, folder).requests
    wanted = {each.id: other.answer(each, block_size) for each in requests}
    assert said(name, block_size, 1, folder) == wanted
    assert said(name, block_size, 3, folder) == wanted
    # Nothing would be compared if nothing were accepted.
    assert (accepted(wanted.values()) > 0) == (block_size > 1)


def test_an_answer_cut_to_a_limit_keeps_whole_steps_and_a_part() -> None:
    whole = Answer([9, 1, 2, 3, 4, 5, 6], [1, 3, 2])
    assert whole.cut(1) == Answer([9], [])
    assert whole.cut(2) == Answer([9, 1], [1])
    assert whole.cut(4) == Answer([9, 1, 2, 3], [1, 2])
    assert whole.cut(20) == whole
