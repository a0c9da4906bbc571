"""Rotary angles: those of Hugging Face's models, for every kind of scaling."""

from typing import Any

import pytest
import torch
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding, apply_rotary_pos_emb

from dflash_bench.engine.rope import inverse_frequencies, rotate, tables

PLAIN = {"rope_type": "default", "rope_theta": 1_000_000.0}
LINEAR = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1_000_000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 1024,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 512,
}
KINDS = pytest.mark.parametrize(
    "rope", [PLAIN, LINEAR, YARN, LLAMA3], ids=lambda rope: rope["rope_type"]
)


def hugging_face(rope: dict[str, Any]) -> Any:
    return Qwen3RotaryEmbedding(
        Qwen3Config(head_dim=16, max_position_embeddings=4096, rope_parameters=dict(rope))
    )


@KINDS
def test_frequencies_are_those_of_a_model_with_this_configuration(rope: dict[str, Any]) -> None:
    inv_freq, scaling = inverse_frequencies(rope, 16, 4096)
    expected = hugging_face(rope)
    torch.testing.assert_close(inv_freq, expected.inv_freq, rtol=0, atol=0)
    assert scaling == expected.attention_scaling
    assert (scaling > 1) == (rope is YARN)


@KINDS
def test_turned_queries_are_those_of_hugging_face(rope: dict[str, Any]) -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(2, 5, 3, 16, generator=random)  # [B, T, heads, D]
    positions = torch.randint(4096, (2, 5), generator=random)
    expected, _ = apply_rotary_pos_emb(x, x, *hugging_face(rope)(x, positions), unsqueeze_dim=2)
    found = rotate(x, tables(positions[..., None], *inverse_frequencies(rope, 16, 4096), x.dtype))
    torch.testing.assert_close(found, expected)


def test_a_score_depends_on_the_distance_alone() -> None:
    query, key = torch.randn(2, 16, generator=torch.Generator().manual_seed(0))
    inv_freq, scaling = inverse_frequencies(PLAIN, 16, 4096)

    def score(query_at: int, key_at: int) -> torch.Tensor:
        both = tables(torch.tensor([[query_at], [key_at]]), inv_freq, scaling, torch.float32)
        turned = rotate(torch.stack((query, key)), (both[0].squeeze(1), both[1].squeeze(1)))
        return turned[0] @ turned[1]

    torch.testing.assert_close(score(17, 12), score(1005, 1000), rtol=1e-4, atol=1e-4)
    assert not torch.isclose(score(17, 12), score(17, 13))


def test_angles_do_not_lose_their_turns_in_bfloat16() -> None:
    inv_freq, scaling = inverse_frequencies(PLAIN, 16, 65_536)
    positions = torch.tensor([[40_001]])
    exact = tables(positions, inv_freq, scaling, torch.float32)
    rounded = tables(positions, inv_freq, scaling, torch.bfloat16)
    for wanted, found in zip(exact, rounded, strict=True):
        torch.testing.assert_close(
            found.float(), wanted, rtol=0, atol=0.004
        )  # half a bf16 ulp at 1
