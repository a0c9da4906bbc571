"""The drop-in gives what Hugging Face's `generate` gives, and refuses what it would have to ignore."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GenerationConfig

from dflash_bench.engine.generator import SpeculativeGenerator
from dflash_bench.engine.target import Target
from dflash_bench.errors import ConfigError
from tests.unit.engine.tiny import VOCAB, build_dflash, build_model

MODELS = Path(__file__).parents[3] / "dflash_bench" / "lab" / "models"
PAD = 0
CONFIG = GenerationConfig(no_repeat_ngram_size=2)  # type: ignore[no-untyped-call]


def padded(count: int, width: int = 9) -> dict[str, Any]:
    """Prompts of different lengths, padded on the left."""
    random = torch.Generator().manual_seed(5)
    ids = torch.randint(1, VOCAB, (count, width), generator=random)
    starts = torch.arange(count) * 2
    mask = (torch.arange(width) >= starts[:, None]).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def generator(model: Any) -> SpeculativeGenerator:
    return SpeculativeGenerator(model, build_dflash(Target.from_model(model), block_size=4))


def test_a_padded_batch_gives_hugging_faces_ids() -> None:
    model = build_model().eval()
    expected = model.generate(**padded(3), max_new_tokens=12, do_sample=False, pad_token_id=PAD)
    found = generator(model).generate(**padded(3), max_new_tokens=12, pad_token_id=PAD)
    assert torch.equal(found, expected)


def test_rows_that_end_early_are_padded_as_by_hugging_face() -> None:
    model = build_model().eval()
    free = model.generate(**padded(3), max_new_tokens=12, do_sample=False, pad_token_id=PAD)
    stop = int(free[1, 12])  # the second row ends in the middle
    asked: dict[str, Any] = {"max_new_tokens": 12, "eos_token_id": stop, "pad_token_id": PAD}
    expected = model.generate(**padded(3), do_sample=False, **asked)
    assert (expected == PAD)[:, 9:].any(), "some row must end early, or the test shows nothing"
    assert torch.equal(generator(model).generate(**padded(3), **asked), expected)


def test_a_repetition_penalty_is_hugging_faces() -> None:
    model = build_model().eval()
    asked: dict[str, Any] = {"max_new_tokens": 16, "repetition_penalty": 1.3, "pad_token_id": PAD}
    # One prompt: with padding, Hugging Face penalises the padding token as well.
    inputs = {name: tensor[:1] for name, tensor in padded(1).items()}
    expected = model.generate(**inputs, do_sample=False, **asked)
    assert torch.equal(generator(model).generate(**inputs, **asked), expected)


def test_sampling_depends_on_the_seed_alone() -> None:
    fast = generator(build_model().eval())
    asked: dict[str, Any] = {
        "max_new_tokens": 12,
        "do_sample": True,
        "temperature": 1.0,
        "pad_token_id": PAD,
    }
    first = fast.generate(**padded(2), **asked, seed=1)
    assert torch.equal(first, fast.generate(**padded(2), **asked, seed=1))
    assert not torch.equal(first, fast.generate(**padded(2), **asked, seed=2))


def test_the_model_is_left_usable() -> None:
    model = build_model().eval()
    ids = padded(1)["input_ids"]
    before = model(ids).logits
    generator(model).generate(ids, max_new_tokens=4)
    assert torch.allclose(model(ids).logits, before, atol=1e-5)


def test_a_checkpoint_names_its_method() -> None:
    model = Target.load(MODELS / "target").network.model  # type: ignore[attr-defined]
    fast = SpeculativeGenerator(model, MODELS / "dflash", block_size=8)
    ids = torch.arange(10, 30)[None]
    expected = model.generate(ids, max_new_tokens=20, do_sample=False, pad_token_id=PAD)
    assert torch.equal(fast.generate(ids, max_new_tokens=20, pad_token_id=PAD), expected)


def test_settings_of_the_checkpoints_method_only_are_taken() -> None:
    model = Target.load(MODELS / "target").network.model  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="blocksize: method 'dflash' has no such setting"):
        SpeculativeGenerator(model, MODELS / "dflash", blocksize=8)
    drafter = build_dflash(Target.from_model(build_model()))
    with pytest.raises(ConfigError, match="block_size is a setting of a checkpoint"):
        SpeculativeGenerator(build_model(), drafter, block_size=8)


def test_without_a_mask_padding_is_told_as_by_hugging_face() -> None:
    model, ids = build_model().eval(), padded(3)["input_ids"]
    for eos in (None, PAD):  # a padding token that may end a text tells nothing
        asked: dict[str, Any] = {"max_new_tokens": 12, "pad_token_id": PAD, "eos_token_id": eos}
        expected = model.generate(ids, do_sample=False, **asked)
        assert torch.equal(generator(model).generate(ids, **asked), expected)


def test_a_configuration_is_laid_over_the_models_own() -> None:
    model = build_model().eval()
    model.generation_config.repetition_penalty = 1.3
    free = model.generate(**padded(1), max_new_tokens=12, do_sample=False, pad_token_id=PAD)
    model.generation_config.eos_token_id = int(free[0, 12])
    model.generation_config.pad_token_id = PAD
    config = GenerationConfig(max_new_tokens=12)  # type: ignore[no-untyped-call]
    expected = model.generate(**padded(1), generation_config=config)
    assert expected.shape[1] < 9 + 12, "the model's own end of text must count, after some tokens"
    assert torch.equal(generator(model).generate(**padded(1), generation_config=config), expected)
    endless = generator(model).generate(**padded(1), max_new_tokens=12, eos_token_id=None)
    assert torch.equal(endless, free)


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"num_beams": 4}, "num_beams is 4"),
        ({"min_new_tokens": 3}, "min_new_tokens is 3"),
        ({"bad_words_ids": [[1]]}, "bad_words_ids"),
        (
            {"generation_config": CONFIG},
            "no_repeat_ngram_size is 2",
        ),
    ],
)
def test_what_would_be_ignored_is_refused(asked: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        generator(build_model().eval()).generate(**padded(1), max_new_tokens=4, **asked)


def test_settings_that_ask_for_nothing_are_taken() -> None:
    model = build_model().eval()
    found = generator(model).generate(
        **padded(1), max_new_tokens=4, num_beams=1, num_return_sequences=1
    )
    assert found.shape == (1, 13)


def test_padding_on_the_right_is_refused() -> None:
    inputs = padded(2)
    inputs["attention_mask"] = inputs["attention_mask"].flip(1)
    with pytest.raises(ConfigError, match="padded on the right"):
        generator(build_model().eval()).generate(**inputs, max_new_tokens=4)
