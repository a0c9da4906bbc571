"""The lean network against Hugging Face's forward pass of the same weights."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from dflash_bench.engine.cache import KVCache
from dflash_bench.engine.hugging_face import HuggingFaceNetwork
from dflash_bench.engine.lean import LeanNetwork, is_lean
from dflash_bench.engine.network import FINAL_NORM, Network
from tests.unit.engine.test_rope import LINEAR, LLAMA3, YARN

SHAPE = {
    "vocab_size": 64,
    "hidden_size": 36,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 4096,
    "initializer_range": 0.2,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3": ("qwen3", {}),
    "qwen3 with biases": ("qwen3", {"attention_bias": True}),
    "qwen3 tied": ("qwen3", {"tie_word_embeddings": True}),
    "qwen3 yarn": ("qwen3", {"rope_parameters": YARN}),
    "qwen3 without groups": ("qwen3", {"num_key_value_heads": 6}),
    "llama": ("llama", {}),
    "llama with biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama3": ("llama", {"rope_parameters": LLAMA3}),
    "llama linear": ("llama", {"rope_parameters": LINEAR, "num_key_value_heads": 1}),
}


def build(name: str, seed: int = 0) -> Any:
    family, changes = VARIANTS[name]
    torch.manual_seed(seed)
    config = AutoConfig.for_model(family, **{**SHAPE, **changes})
    auto: Any = AutoModelForCausalLM
    model = auto.from_config(config, attn_implementation="sdpa").eval()
    for key, weight in model.named_parameters():
        if "norm" in key or "bias" in key:  # fresh norms and biases do nothing
            weight.data.add_(torch.rand_like(weight) * 0.4)
    return model.requires_grad_(False)


@torch.inference_mode()
def two_passes(
    network: Network, taps: tuple[int, ...] = (), last_only: bool = False
) -> tuple[Tensor, Tensor]:
    """Fill the cache with rows of 7 tokens, then run 4 more as a tree over rows of 7, 5 and 2."""
    random = torch.Generator().manual_seed(3)
    cache = KVCache(network.cache_shape)
    cache.reserve(3, 16)
    prompts = torch.randint(64, (3, 7), generator=random)
    slots = torch.arange(7).expand(3, 7)
    causal = torch.arange(7) <= slots[..., None]
    network.forward(prompts, slots, causal, cache.at(0, slots, 7), (), True)

    starts = torch.tensor([[7], [5], [2]])
    slots = starts + torch.arange(4)
    block = torch.randint(64, (3, 4), generator=random)
    family = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]]).bool()
    seen = (torch.arange(11) < starts)[:, None].repeat(1, 4, 1)
    seen.scatter_(2, slots[:, None].expand(3, 4, 4), family.expand(3, 4, 4))
    positions = starts + torch.tensor([0, 1, 1, 2])
    return network.forward(block, positions, seen, cache.at(0, slots, 11), taps, last_only)


@pytest.mark.parametrize("name", VARIANTS)
def test_logits_and_taps_are_those_of_hugging_face(name: str) -> None:
    taps = (2, 0, FINAL_NORM)
    expected = two_passes(HuggingFaceNetwork(build(name)), taps)
    found = two_passes(LeanNetwork(build(name)), taps)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["qwen3", "llama"])
def test_without_taps_there_are_no_features(name: str) -> None:
    assert two_passes(LeanNetwork(build(name)))[1].shape == (3, 4, 0)


def test_the_last_token_alone_has_the_same_logits_and_all_tokens_features() -> None:
    network = LeanNetwork(build("qwen3"))
    every, features = two_passes(network, (FINAL_NORM,))
    last, same_features = two_passes(network, (FINAL_NORM,), last_only=True)
    assert last.shape == (3, 1, 64)
    torch.testing.assert_close(last, every[:, -1:])
    torch.testing.assert_close(same_features, features)


@pytest.mark.parametrize("name", ["qwen3 with biases", "llama"])
def test_bfloat16_is_as_near_to_the_truth_as_hugging_face_is(name: str) -> None:
    errors: list[list[Tensor]] = [[], []]
    for seed in range(4):
        model = build(name, seed)
        for (
            weight
        ) in model.parameters():  # but not the frequencies, which loading leaves in float32
            weight.data = weight.data.bfloat16()
        exact = deepcopy(model).float()
        wanted = two_passes(HuggingFaceNetwork(exact))[0]
        for kind, network in enumerate((HuggingFaceNetwork(deepcopy(model)), LeanNetwork(model))):
            logits = two_passes(network)[0]
            assert logits.dtype == torch.bfloat16
            errors[kind].append((logits.float() - wanted).square().mean())
    hugging_face, lean = (torch.stack(each).mean().sqrt() for each in errors)
    assert lean < 1.5 * hugging_face


@pytest.mark.parametrize("name", ["qwen3 with biases", "llama with biases", "qwen3 tied"])
def test_weights_are_taken_over_not_copied(name: str) -> None:
    def storages(model: Any) -> dict[int, int]:
        kept = [p.untyped_storage() for p in model.parameters()]
        return {storage.data_ptr(): storage.nbytes() for storage in kept}

    model = build(name)
    tokens = torch.tensor([[1, 2, 3]])
    before, expected = sum(storages(model).values()), model(tokens).logits
    network = LeanNetwork(model)
    held = storages(model)
    assert sum(held.values()) == before
    for layer in network._layers:
        for matrix in layer._qkv:
            assert matrix is None or matrix.untyped_storage().data_ptr() in held
    # The model still computes what it did, now on views of the fused matrices.
    torch.testing.assert_close(model(tokens).logits, expected)


def test_what_this_file_does_not_compute_is_left_to_hugging_face() -> None:
    config = build("llama").config
    assert is_lean(config)
    config.hidden_act = "gelu"
    assert not is_lean(config)
    quantized = build("qwen3").config
    quantized.quantization_config = {"quant_method": "fp8"}
    assert not is_lean(quantized)
    assert not is_lean(AutoConfig.for_model("qwen2"))
