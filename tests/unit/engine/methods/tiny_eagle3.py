"""EAGLE-3 drafters with random weights for the tiny targets, of a quarter of their vocabulary."""

from dataclasses import replace
from typing import Any

import torch

from dflash_bench.engine.methods.eagle3 import Eagle3Drafter
from dflash_bench.engine.methods.eagle3_model import Eagle3Config, Eagle3Model
from dflash_bench.engine.methods.eagle3_tree import TreeShape
from dflash_bench.engine.target import Target
from tests.unit.engine.tiny import VOCAB

TAPS = (1, 0, 2)
DRAFTED = tuple(range(1, VOCAB, 4))
CONFIG = Eagle3Config(
    hidden_size=32,
    target_hidden_size=32,
    intermediate_size=48,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    vocab_size=VOCAB,
    draft_vocab_size=len(DRAFTED),
    rms_norm_eps=1e-6,
    rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
    max_position_embeddings=256,
    taps=TAPS,
)


def build_network(seed: int = 1, **changes: Any) -> Eagle3Model:
    """Return a network of wide weights: what it drafts depends on all that it sees."""
    torch.manual_seed(seed)
    network = Eagle3Model(replace(CONFIG, **changes)).eval().requires_grad_(False)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.5)
    if network.config.draft_vocab_size == len(DRAFTED):
        network.d2t.copy_(torch.tensor(DRAFTED) - torch.arange(len(DRAFTED)))
    return network


def build_drafter(
    target: Target, block_size: int = 5, tree: TreeShape | None = None, **changes: Any
) -> Eagle3Drafter:
    return Eagle3Drafter(build_network(**changes), target, TAPS, block_size, tree)
