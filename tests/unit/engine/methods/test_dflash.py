"""The DFlash drafter in the loop against a plain recomputation without any cache."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from dflash_bench.engine.loop import Admitted, generate
from dflash_bench.engine.methods.dflash import DFlashDrafter
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.engine.sampling import Sampling
from dflash_bench.engine.target import Target
from dflash_bench.engine.verify import Draft
from tests.unit.engine.tiny import (
    MASK,
    build_model,
    build_requests,
    dflash_config,
)

CONFIG = dflash_config()


class Recorder(DFlashDrafter):
    """A drafter that remembers what it drafted last."""

    drafted: Draft

    def draft_block(self, pending: Tensor, lengths: Sequence[int]) -> Draft:
        self.drafted = super().draft_block(pending, lengths)
        return self.drafted


def build(family: str = "qwen3") -> tuple[Target, DFlashModel]:
    torch.manual_seed(1)
    network = DFlashModel(CONFIG).eval().requires_grad_(False)
    for parameter in network.parameters():  # wide weights: drafts depend on all of the context
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=1.0)
    return Target.from_model(build_model(family)), network


def recompute(
    target: Target, network: DFlashModel, text: list[int], width: int, tap_shift: int = 0
) -> list[int]:
    """Draft what follows `text` from scratch: all features, the whole context, one row, no cache."""
    n = len(text) - 1  # the last token is pending: it has no features yet
    whole = target._model(torch.tensor([text[:n]]), output_hidden_states=True)
    # hidden_states[0] is the embedding, so layer i's output stands at i + 1.
    taps = [whole.hidden_states[i + 1 + tap_shift] for i in CONFIG.target_layer_ids]
    embedding = target._model.get_input_embeddings()
    block = embedding(torch.tensor([[text[n]] + [MASK] * (width - 1)]))
    positions = torch.arange(n, n + width)[None]
    hidden = network(block, positions, torch.cat(taps, -1), torch.arange(n)[None], None)
    drafts: list[int] = target.lm_head(hidden)[0, 1:].argmax(-1).tolist()
    return drafts


@pytest.mark.parametrize("family", ["qwen3", "llama"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_drafts_equal_a_recomputation_without_cache(family: str, batch_size: int) -> None:
    target, network = build(family)
    drafter, width = Recorder(network, target, block_size=5), 5
    requests = build_requests(5, max_new_tokens=9)
    texts = {request.id: list(request.prompt) for request in requests}
    compared = 0
    for event in generate(
        target, drafter, requests, batch_size=batch_size, sampling=Sampling(1.0, seed=2)
    ):
        if isinstance(event, Admitted):
            texts[event.request_id].append(event.first_token)
            continue
        for row, drafts in zip(event.rows, drafter.drafted.tokens.tolist(), strict=True):
            assert drafts == recompute(target, network, texts[row.request_id], width)
            texts[row.request_id] += row.tokens
            compared += 1
    assert compared > 20


def test_the_comparison_would_see_a_wrong_tap() -> None:
    target, network = build()
    text = list(range(10, 25))
    assert recompute(target, network, text, 5) != recompute(target, network, text, 5, tap_shift=-1)


def test_a_shorter_block_is_not_the_beginning_of_a_longer_one() -> None:
    """The block sees itself in both directions, so that every width has to be run."""
    target, network = build()
    text = list(range(10, 25))
    assert recompute(target, network, text, 3) != recompute(target, network, text, 8)[:2]


def test_the_block_size_is_the_checkpoints_unless_asked() -> None:
    target, network = build()
    assert DFlashDrafter(network, target).block_size == CONFIG.block_size == 8
    assert DFlashDrafter(network, target, 3).block_size == 3
    assert DFlashDrafter(network, target).taps == (0, 1, 2)
