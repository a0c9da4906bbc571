"""The draft network against Hugging Face's Qwen3 layers, and against plain arithmetic."""

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import Qwen3Config, Qwen3Model

from dflash_bench.engine.methods.dflash_model import DFlashModel
from tests.unit.engine.tiny import dflash_config

CONFIG = dflash_config(rope_theta=500.0)


def build(seed: int = 0) -> DFlashModel:
    """Return a network with wide weights and norms that are not one."""
    torch.manual_seed(seed)
    model = DFlashModel(CONFIG).eval().requires_grad_(False)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=0.2 if parameter.dim() == 1 else 0.0, std=0.3)
    return model


def plain_forward(
    model: DFlashModel,
    block: Tensor,
    positions: Tensor,
    features: Tensor,
    context: Tensor,
    mask: Tensor,
) -> Tensor:
    """Compute one row token by token and head by head, straight from the weights.

    block [Q, H] at `positions` [Q], features [S, m*H] at `context` [S], mask [Q, S+Q].
    """
    w: dict[str, Tensor] = dict(model.state_dict())
    dim, groups = CONFIG.head_dim, CONFIG.num_attention_heads // CONFIG.num_key_value_heads

    def norm(x: Tensor, name: str) -> Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + CONFIG.rms_norm_eps).sqrt() * w[name]

    def rotate(x: Tensor, position: Tensor) -> Tensor:
        """Turn the pair (x_i, x_{i+D/2}), as a complex number, by position * theta^(-2i/D)."""
        rate = CONFIG.rope_theta ** (-torch.arange(0, dim, 2) / dim)
        turned = torch.complex(x[: dim // 2], x[dim // 2 :]) * torch.exp(1j * position * rate)
        return torch.cat((turned.real, turned.imag))

    c = norm(features @ w["fc.weight"].T, "hidden_norm.weight")
    x, places = block, torch.cat((context, positions))
    for i in range(CONFIG.num_hidden_layers):
        at = f"layers.{i}.self_attn"
        normed = norm(x, f"layers.{i}.input_layernorm.weight")
        seen = torch.cat((c, normed))  # [S+Q, H]
        heads = []
        for head in range(CONFIG.num_attention_heads):
            own = slice(head * dim, (head + 1) * dim)
            shared = slice(head // groups * dim, (head // groups + 1) * dim)
            q = norm(normed @ w[f"{at}.q_proj.weight"][own].T, f"{at}.q_norm.weight")
            k = norm(seen @ w[f"{at}.k_proj.weight"][shared].T, f"{at}.k_norm.weight")
            v = seen @ w[f"{at}.v_proj.weight"][shared].T
            q = torch.stack([rotate(*each) for each in zip(q, positions, strict=True)])
            k = torch.stack([rotate(*each) for each in zip(k, places, strict=True)])
            scores = (q @ k.T / dim**0.5).masked_fill(~mask, float("-inf"))
            heads.append(scores.softmax(-1) @ v)
        x = x + torch.cat(heads, -1) @ w[f"{at}.o_proj.weight"].T
        normed = norm(x, f"layers.{i}.post_attention_layernorm.weight")
        gate, up, down = (w[f"layers.{i}.mlp.{n}_proj.weight"] for n in ("gate", "up", "down"))
        x = x + (F.silu(normed @ gate.T) * (normed @ up.T)) @ down.T
    return norm(x, "norm.weight")


def test_the_forward_pass_equals_plain_arithmetic() -> None:
    model = build()
    block, features = torch.randn(2, 6, 32), torch.randn(2, 5, 96)
    context = torch.tensor([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]])
    positions = torch.tensor([[5, 6, 7, 5, 6, 7], [8, 9, 10, 7, 8, 9]])
    mask = torch.rand(2, 1, 6, 11) < 0.7
    mask[..., 0] = True  # nobody sees nothing
    hidden = model(block, positions, features, context, mask)
    for row in range(2):
        expected = plain_forward(
            model, block[row], positions[row], features[row], context[row], mask[row, 0]
        )
        torch.testing.assert_close(hidden[row], expected, rtol=1e-4, atol=1e-4)


def test_without_context_the_layers_are_those_of_qwen3() -> None:
    model = build()
    qwen3 = Qwen3Model(
        Qwen3Config(
            vocab_size=8,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        )
    ).requires_grad_(False)
    result = qwen3.load_state_dict(model.state_dict(), strict=False)
    assert result.missing_keys == ["embed_tokens.weight"]
    assert result.unexpected_keys == ["fc.weight", "hidden_norm.weight"]
    block, positions = torch.randn(2, 6, 32), torch.arange(40, 46).expand(2, 6)
    mask = torch.ones(6, 6, dtype=torch.bool).tril()[None, None]
    expected = qwen3(inputs_embeds=block, position_ids=positions).last_hidden_state
    none = torch.empty(2, 0, 96), torch.empty(2, 0, dtype=torch.int64)
    hidden = model(block, positions, *none, mask)
    torch.testing.assert_close(hidden, expected, rtol=1e-4, atol=1e-4)


def test_blocks_side_by_side_equal_blocks_alone() -> None:
    """Training packs several blocks into one call; the mask keeps each to itself and its context."""
    model = build()
    features, context = torch.randn(1, 9, 96), torch.arange(9)[None]
    anchors, width = (3, 7), 4
    blocks = torch.randn(1, 2 * width, 32)
    positions = torch.cat([torch.arange(a, a + width) for a in anchors])[None]
    before = torch.tensor([a for a in anchors for _ in range(width)])[:, None]  # [Q, 1]
    own = torch.eye(2).bool().repeat_interleave(width, 0).repeat_interleave(width, 1)
    mask = torch.cat((context < before, own), dim=1)[None, None]
    together = model(blocks, positions, features, context, mask)
    for index, anchor in enumerate(anchors):
        part = slice(index * width, (index + 1) * width)
        alone = model(
            blocks[:, part], positions[:, part], features[:, :anchor], context[:, :anchor], None
        )
        torch.testing.assert_close(together[:, part], alone, rtol=1e-4, atol=1e-4)


def test_gradients_reach_every_parameter() -> None:
    model = build().requires_grad_(True)
    hidden = model(
        torch.randn(1, 4, 32),
        torch.arange(3, 7)[None],
        torch.randn(1, 3, 96),
        torch.arange(3)[None],
        None,
    )
    hidden.square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())
