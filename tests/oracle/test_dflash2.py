"""DFlash2 against PyPI's dflash 0.1.0 on random weights: the network, the selector, and the whole loop.

A vocabulary of eight, so that chance accepts drafts. The authors' loop narrows its last blocks; as in
`upstream`, one block more is asked for and cut back.
"""

from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from dflash_bench.engine.methods.dflash import DFlashDrafter
from dflash_bench.engine.methods.dflash_attention import LayerAttention
from dflash_bench.engine.methods.dflash_checkpoint import load, save
from dflash_bench.engine.methods.dflash_config import DFlashConfig, SecondShape
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.engine.target import Target
from tests.oracle import upstream
from tests.oracle.answers import accepted, ours
from tests.oracle.pairs import Pair, random_weights
from tests.oracle.upstream import Upstream

SHAPE = SecondShape(conv_kernel_size=2, conv_group_size=8, selector_rank=6, selector_top_k=4)
# (window, causal) of the two layers: the released checkpoints' kind, and the one of older sliding ones.
ATTENTION = {
    "full": (),
    "sliding-both-ways": (LayerAttention(window=7), LayerAttention()),
    "sliding-causal": (LayerAttention(window=7, causal=True), LayerAttention()),
}


class Second(Upstream):
    """The authors' loop with a DFlash2 drafter."""

    def __init__(self, model: Any, draft: Path) -> None:
        self._model = model
        self._dflash: Any = import_module(upstream.MODULE)
        self._draft = self._dflash.DFlash2DraftModel.from_pretrained(draft, dtype=model.dtype)
        self.network, self.module = self._draft, self._dflash


@pytest.fixture(scope="module", params=ATTENTION)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A random target, and a random DFlash2 drafter of block 8."""
    pytest.importorskip(upstream.MODULE, reason="PyPI's dflash is not installed: make oracle")
    if (found := metadata.version("dflash")) != upstream.VERSION:
        pytest.skip(f"dflash {found} is installed, the oracle is {upstream.VERSION}")
    base = random_weights("qwen3", tmp_path_factory.mktemp(request.param))
    config = DFlashConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, vocab_size=8, rms_norm_eps=1e-6, rope_theta=10_000.0,
        block_size=8, mask_token_id=3, target_layer_ids=(0, 2), num_target_layers=4, second=SHAPE,
        attention=ATTENTION[request.param], output_multiplier=0.3, input_embedding_scale=1.5,
        final_logit_softcapping=4.0,
    )  # fmt: skip
    torch.manual_seed(5)
    network = DFlashModel(config)
    for parameter in network.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    save(network, config, base.draft.parent / "second")
    return Pair(base.target, base.draft.parent / "second", base.requests)


def both(pair: Pair) -> tuple[Second, DFlashModel, Any]:
    model = AutoModelForCausalLM.from_pretrained(pair.target, dtype=torch.float32)
    return Second(model, pair.draft), load(pair.draft), model


def test_a_block_leaves_the_network_and_the_selector_as_the_authors_have_it(pair: Pair) -> None:
    theirs, network, model = both(pair)
    torch.manual_seed(1)
    start, width = 13, 8
    features, anchor = torch.randn(1, start, 64), torch.tensor([6])
    tokens = torch.tensor([[6] + [3] * (width - 1)])
    block = model.get_input_embeddings()(tokens).detach() * network.config.input_embedding_scale
    with torch.no_grad():
        expected: Tensor = theirs.network(
            position_ids=torch.arange(start + width)[None],
            noise_embedding=block,
            target_hidden=features,
        )
        drafter = DFlashDrafter(network, Target.from_model(model))
        drafter.reserve(1, start + width)
        drafter.admit(0, [0] * (start + 1), features)
        positions = torch.arange(start, start + width)[None]
        view = drafter._cache.at(0, positions, start + width)
        hidden = drafter._network.denoise(block.clone(), positions, view, start + width)
        torch.testing.assert_close(hidden, expected, rtol=1e-4, atol=1e-4)
        walked, _, _ = theirs.network.propose(expected[:, 1:], anchor, model.lm_head, 0.0)
        logits = drafter._head.logits(hidden[:, 1:])
        assert torch.equal(network.candidate_selector.walk(hidden[:, 1:], logits, anchor), walked)


@pytest.mark.parametrize("block_size", [2, 5, 8])
def test_the_loop_says_and_accepts_the_same(pair: Pair, block_size: int) -> None:
    theirs, network, _ = both(pair)
    target = Target.load(pair.target)
    drafter = DFlashDrafter(network, target, block_size)
    found = ours(target, drafter, pair.requests, batch_size=3)
    for request in pair.requests:
        assert found[request.id] == theirs.answer(request, block_size)
    assert accepted(found.values()) > 0
