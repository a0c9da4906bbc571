"""A tokenizer and a target so small that they are made in a moment."""

import pytest
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from dflash_bench.lab import target, tokenizer
from dflash_bench.lab.corpus import chat, functions, word_problems


@pytest.fixture(scope="session")
def lab_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of 400 tokens, trained as the real one is."""
    families = {m.FAMILY: m.rows(1, 60, held_out=False) for m in (chat, functions, word_problems)}
    return tokenizer.train(tokenizer.sample_texts(families), vocab_size=400)


@pytest.fixture
def tiny_target() -> Qwen3ForCausalLM:
    """An untrained target of the real depth (the drafter taps and copies its layers), half as wide."""
    return target.new_model(target.config(400, hidden=64))
