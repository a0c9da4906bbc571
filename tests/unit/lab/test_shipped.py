"""The shipped pair does what it is shipped for: it drafts well, and leaves the text as it is."""

import pytest

from dflash_bench.engine.methods import dflash_checkpoint
from dflash_bench.engine.methods.dflash import DFlashDrafter
from dflash_bench.engine.target import Target
from dflash_bench.lab import outputs, samples, tokenizer
from dflash_bench.lab.acceptance import measure
from dflash_bench.lab.catalogue import MODELS


@pytest.fixture(scope="module")
def target() -> Target:
    """The shipped target in fp32."""
    return Target.load(MODELS / "target")


@pytest.mark.parametrize("temperature", outputs.TEMPERATURES)
def test_code_is_accepted_in_long_runs_and_unchanged(target: Target, temperature: float) -> None:
    rows = samples.held_out("code")[:6]
    words = tokenizer.load(MODELS / "target")
    reference = outputs.answer(
        target, words, rows, temperature, max_new_tokens=64, progress=lambda _: None
    )
    drafter = DFlashDrafter(dflash_checkpoint.load(MODELS / "dflash"), target)
    (found,) = measure(target, drafter, reference, label="block 16", max_new_tokens=64)
    assert found.identical == found.compared == 6
    assert found.tau > 3


def test_the_drafter_fits_the_target(target: Target) -> None:
    config = dflash_checkpoint.load(MODELS / "dflash").config
    dflash_checkpoint.check_fit(config, target)
    assert config.block_size == 16
    assert config.mask_token_id == 3
