"""The EAGLE-3 network against its formulas, written out with the names on disk and transformers' RoPE."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from dflash_bench.engine.methods.eagle3_checkpoint import load, save
from dflash_bench.engine.methods.eagle3_model import Eagle3Config, Eagle3Model
from tests.unit.engine.methods.tiny_eagle3 import DRAFTED, build_network

Weights = dict[str, Tensor]


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def fuse(w: Weights, config: Eagle3Config, features: Tensor) -> Tensor:
    if config.norm_before_fc:
        features = norm(features, w["input_norm.weight"], config.rms_norm_eps)
    if config.fc_norm:
        size = config.target_hidden_size
        parts = [features[..., i * size : (i + 1) * size] for i in range(config.num_taps)]
        normed = [
            norm(p, w[f"fc_norm.{i}.weight"], config.rms_norm_eps) for i, p in enumerate(parts)
        ]
        features = torch.cat(normed, -1)
    return features @ w["fc.weight"].T


def layer(w: Weights, config: Eagle3Config, embeddings: Tensor, hidden: Tensor) -> Tensor:
    """One causal pass over entries [Q, H] from position 0 on, one head at a time."""
    eps, dim, count = config.rms_norm_eps, config.head_dim, len(hidden)
    normed = norm(hidden, w["midlayer.hidden_norm.weight"], eps)
    joined = torch.cat((norm(embeddings, w["midlayer.input_layernorm.weight"], eps), normed), -1)

    def project(name: str) -> Tensor:
        bias = w.get(f"midlayer.self_attn.{name}_proj.bias")
        projected = F.linear(joined, w[f"midlayer.self_attn.{name}_proj.weight"], bias)
        return projected.view(count, -1, dim).transpose(0, 1)[None]  # [1, heads, Q, D]

    llama = LlamaConfig(
        hidden_size=dim,
        num_attention_heads=1,
        head_dim=dim,
        max_position_embeddings=config.max_position_embeddings,
        rope_parameters=dict(config.rope_parameters),
    )
    rope: Any = LlamaRotaryEmbedding(llama)
    cos, sin = rope(hidden, torch.arange(count)[None])
    queries, keys = apply_rotary_pos_emb(project("q"), project("k"), cos, sin)
    values, heads = project("v"), []
    group = config.num_attention_heads // config.num_key_value_heads
    for head in range(config.num_attention_heads):
        scores = queries[0, head] @ keys[0, head // group].T / dim**0.5
        scores = scores.masked_fill(torch.ones(count, count).triu(1) > 0, -torch.inf)
        heads.append(scores.softmax(-1) @ values[0, head // group])
    attended = F.linear(
        torch.cat(heads, -1),
        w["midlayer.self_attn.o_proj.weight"],
        w.get("midlayer.self_attn.o_proj.bias"),
    )
    x = (normed if config.norm_before_residual else hidden) + attended
    inner = norm(x, w["midlayer.post_attention_layernorm.weight"], eps)
    gate, up = (inner @ w[f"midlayer.mlp.{part}_proj.weight"].T for part in ("gate", "up"))
    return x + F.silu(gate) * up @ w["midlayer.mlp.down_proj.weight"].T


LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm_before_residual": True, "norm_before_fc": True, "attention_bias": True},
        {"fc_norm": True, "norm_output": True, "num_key_value_heads": 4},
        {"rope_parameters": LLAMA3, "head_dim": 16, "num_key_value_heads": 1},
        {"target_hidden_size": 24, "num_taps": 5, "taps": (1, 0, 2, 3, 0)},
    ],
)
def test_the_network_computes_its_formulas(options: dict[str, Any], tmp_path: Path) -> None:
    network = build_network(**options)
    save(network, tmp_path)
    network, w = load(tmp_path), load_file(tmp_path / "model.safetensors")
    config = network.config
    features = torch.randn(9, config.num_taps * config.target_hidden_size)
    embeddings = torch.randn(9, config.hidden_size)
    fused = fuse(w, config, features)
    assert torch.allclose(network.fuse(features), fused, atol=1e-4)

    def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (queries, keys, values))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return out.transpose(1, 2).flatten(2)

    rotary = network.rotary(torch.arange(9)[None])
    with torch.inference_mode():
        hidden = network(embeddings[None], fused[None], rotary, attend)[0]
        expected = layer(w, config, embeddings, fused)
        normed = norm(expected, w["norm.weight"], config.rms_norm_eps)
        assert torch.allclose(hidden, normed if config.norm_output else expected, atol=1e-3)
        assert torch.allclose(network.logits(hidden), normed @ w["lm_head.weight"].T, atol=1e-3)


def test_a_draft_token_is_the_targets_token_by_an_offset() -> None:
    network: Eagle3Model = build_network()
    assert network.drafted().tolist() == list(DRAFTED)
    assert network.d2t[:3].tolist() == [1, 4, 7]
