"""Every supported family: rolled back, ragged and in blocks, it says what Hugging Face's decoding says."""

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from dflash_bench.engine.hugging_face import HuggingFaceNetwork
from dflash_bench.engine.lean import LeanNetwork
from dflash_bench.engine.methods.ar import AutoregressiveDrafter
from dflash_bench.engine.network import FINAL_NORM, Network, network_of
from dflash_bench.engine.pretrained import FAMILIES
from dflash_bench.engine.target import Target
from tests.unit.engine.tiny import build_requests, outputs

SHAPE = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "initializer_range": 0.4,
    "tie_word_embeddings": False,
    "sliding_window": None,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
LEAN = ("llama", "qwen3")


def build(family: str, **changes: Any) -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **{**SHAPE, **changes})
    auto: Any = AutoModelForCausalLM
    model = auto.from_config(config, attn_implementation="sdpa").eval()
    for name, weight in model.named_parameters():
        if "norm" in name:  # a fresh norm does nothing; a trained one weighs
            weight.data.add_(torch.rand_like(weight) * 0.4)
    return model


def networks(family: str) -> list[Network]:
    """Return the networks that run a family, on two copies of the same weights."""
    hugging_face: list[Network] = [HuggingFaceNetwork(build(family))]
    return hugging_face + ([LeanNetwork(build(family))] if family in LEAN else [])


@pytest.mark.parametrize("family", FAMILIES)
def test_text_is_that_of_hugging_face(family: str) -> None:
    requests = build_requests(5, max_new_tokens=16)
    model = build(family)
    texts = {}
    for request in requests:
        tokens = torch.tensor([request.prompt])
        text = model.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            do_sample=False,
            max_new_tokens=16,
            pad_token_id=0,
        )
        texts[request.id] = text[0, len(request.prompt) :].tolist()
    for network in networks(family):
        assert outputs(Target(network), AutoregressiveDrafter(), requests, batch_size=3) == texts


@pytest.mark.parametrize("family", FAMILIES)
def test_a_ragged_block_of_five_equals_its_tokens_one_by_one(family: str) -> None:
    prompts = ([5, 6, 7, 8, 9], [11, 12], [21, 22, 23])
    block = torch.randint(64, (3, 5), generator=torch.Generator().manual_seed(1))
    lengths = [len(prompt) for prompt in prompts]
    for network in networks(family):
        target = Target(network)
        target.reserve(3, 16, taps=(0, 2, FINAL_NORM))
        for row, prompt in enumerate(prompts):
            target.prefill(row, prompt)
        together = target.verify_block(block, lengths)
        for j in range(5):  # over the slots that the block has left behind
            alone = target.verify_block(block[:, j : j + 1], [n + j for n in lengths])
            torch.testing.assert_close(
                alone.logits, together.logits[:, j : j + 1], rtol=1e-4, atol=5e-4
            )
            torch.testing.assert_close(
                alone.features, together.features[:, j : j + 1], rtol=1e-4, atol=5e-4
            )


@pytest.mark.parametrize("family", FAMILIES)
def test_embedding_norm_and_head_are_those_of_the_forward_pass(family: str) -> None:
    tokens = torch.tensor([[5, 6, 7, 8]])
    model = build(family)
    with torch.inference_mode():
        expected = model(tokens, output_hidden_states=True)
        for network in networks(family):
            target = Target(network)
            target.reserve(1, 4, taps=(2, FINAL_NORM))
            last, final = target.prefill(0, tokens[0].tolist()).features.chunk(2, -1)
            torch.testing.assert_close(network.embed(tokens), expected.hidden_states[0])
            torch.testing.assert_close(network.final_norm(last), final)
            torch.testing.assert_close(
                network.lm_head(final), expected.logits, rtol=1e-4, atol=1e-4
            )


def test_the_lean_network_is_taken_where_it_computes_the_model() -> None:
    for family in LEAN:
        assert isinstance(network_of(build(family)), LeanNetwork)
    for model in (build("qwen2"), build("llama", hidden_act="gelu")):
        assert type(network_of(model)) is HuggingFaceNetwork


def test_hooks_are_taken_off_when_nothing_reads_them() -> None:
    network = HuggingFaceNetwork(build("qwen2"))
    target = Target(network)
    target.reserve(1, 8, taps=(1, FINAL_NORM))
    target.prefill(0, [1, 2])
    target.reserve(1, 8)
    assert target.prefill(0, [1, 2]).features.shape[-1] == 0
    assert not any(module._forward_hooks for module in network.model.modules())
