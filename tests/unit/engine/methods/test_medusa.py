"""Medusa in the loop: chain and tree against a plain recomputation, and AR's own text."""

from collections.abc import Sequence

import pytest
import torch

from dflash_bench.engine.draft import Anchors, Draft
from dflash_bench.engine.loop import Admitted, generate
from dflash_bench.engine.methods.ar import AutoregressiveDrafter
from dflash_bench.engine.methods.medusa import CHOICES, MedusaDrafter, Path, tree_of
from dflash_bench.engine.methods.medusa_model import MedusaConfig, MedusaHeads
from dflash_bench.engine.sampling import Sampling
from dflash_bench.engine.target import Target
from tests.unit.engine.tiny import VOCAB, build_model, build_requests, outputs

NUM_HEADS = 3


class Recorder(MedusaDrafter):
    """A drafter that remembers what it drafted last."""

    drafted: Draft

    def draft_block(self, anchors: Anchors) -> Draft:
        self.drafted = super().draft_block(anchors)
        return self.drafted


def build_heads(num_heads: int = NUM_HEADS) -> MedusaHeads:
    torch.manual_seed(1)
    heads = MedusaHeads(MedusaConfig(32, VOCAB, num_heads)).eval().requires_grad_(False)
    for parameter in heads.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return heads


def head_logits(target: Target, heads: MedusaHeads, text: Sequence[int]) -> torch.Tensor:
    """Ask the heads from scratch: [heads, V] after `text`, whose last token is pending."""
    model = target.network.model  # type: ignore[attr-defined]
    hidden = model.model(torch.tensor([text[:-1]]), use_cache=False).last_hidden_state[0, -1]
    return torch.stack([head[1](hidden + silu(head[0].linear(hidden))) for head in heads])  # type: ignore[index]


def silu(x: torch.Tensor) -> torch.Tensor:
    return x * x.sigmoid()


def draft_steps(
    drafter: Recorder, target: Target, batch_size: int
) -> list[tuple[list[int], list[int]]]:
    """Run requests at temperature 1; return every step's text and what was drafted behind it."""
    requests = build_requests(5, max_new_tokens=9)
    texts = {request.id: list(request.prompt) for request in requests}
    steps = []
    for event in generate(
        target, drafter, requests, batch_size=batch_size, sampling=Sampling(1.0, seed=2)
    ):
        if isinstance(event, Admitted):
            texts[event.request_id].append(event.first_token)
            continue
        for row, drafts in zip(event.rows, drafter.drafted.tokens.tolist(), strict=True):
            steps.append((list(texts[row.request_id]), drafts))
            texts[row.request_id] += row.tokens
    assert len(steps) > 20
    return steps


@pytest.mark.parametrize("family", ["qwen3", "llama"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_chain_is_the_best_token_of_every_head(family: str, batch_size: int) -> None:
    target, heads = Target.from_model(build_model(family)), build_heads()
    for text, drafts in draft_steps(Recorder(heads, target, 4), target, batch_size):
        assert drafts == head_logits(target, heads, text).argmax(-1).tolist()


def test_a_shorter_chain_asks_fewer_heads() -> None:
    target, heads = Target.from_model(build_model()), build_heads()
    for text, drafts in draft_steps(Recorder(heads, target, 2), target, 2):
        assert drafts == head_logits(target, heads, text)[:1].argmax(-1).tolist()


def test_a_tree_has_the_ranks_of_its_paths() -> None:
    target, heads = Target.from_model(build_model()), build_heads()
    paths = tree_of(depth=3, top_k=4)
    drafter = Recorder(heads, target, len(paths) + 1, paths)
    for text, drafts in draft_steps(drafter, target, 3):
        best = head_logits(target, heads, text).argsort(-1, descending=True)
        assert drafts == [int(best[len(path) - 1, path[-1]]) for path in paths]
    parents = drafter.drafted.parents
    assert parents is not None
    for node, parent in enumerate(parents[0].tolist()):
        assert (paths[parent - 1] if parent else ()) == paths[node][:-1]


@pytest.mark.parametrize("tree", [(), tree_of(3, 10), tree_of(2, 3)], ids=len)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_text_is_plain_decodings(
    tree: tuple[Path, ...], temperature: float, batch_size: int
) -> None:
    target, sampling = Target.from_model(build_model()), Sampling(temperature, seed=5)
    requests = build_requests(5)
    drafter = MedusaDrafter(build_heads(), target, len(tree) + 1 if tree else 4, tree)
    plain = outputs(target, AutoregressiveDrafter(), requests, 2, sampling)
    assert outputs(target, drafter, requests, batch_size, sampling) == plain


def test_under_a_law_every_token_is_drawn_from_its_own_head() -> None:
    target, heads = Target.from_model(build_model()), build_heads()
    drafter = MedusaDrafter(heads, target, 4)
    drafter.reserve(2, 20)
    hidden = torch.randn(2, 32)
    for row in range(2):
        drafter.admit(row, [1, 2], hidden[row, None, None])
    law = Sampling(0.7, seed=3)
    anchors = Anchors(torch.tensor([2, 2]), [1, 1], torch.tensor([1, 1]), torch.arange(2), law)
    draft = drafter.draft_block(anchors)
    assert draft.probs is not None
    expected = (heads(hidden).double() / 0.7).softmax(-1)
    torch.testing.assert_close(draft.probs, expected)


def test_a_tree_has_no_law() -> None:
    target = Target.from_model(build_model())
    drafter = MedusaDrafter(build_heads(), target, 9, tree_of(2, 3)[:8])
    drafter.reserve(1, 20)
    anchors = Anchors(
        torch.tensor([2]), [1], torch.tensor([1]), torch.tensor([0]), Sampling(1.0, seed=3)
    )
    assert drafter.draft_block(anchors).probs is None


def test_the_published_tree_may_be_cut_anywhere() -> None:
    assert len(set(CHOICES)) == 63
    for number, path in enumerate(CHOICES):
        assert path[:-1] == () or path[:-1] in CHOICES[:number]


def test_a_narrower_tree_keeps_the_order() -> None:
    assert tree_of(1, 3) == ((0,), (1,), (2,))
    assert tree_of(4, 10) == CHOICES
    assert tree_of(4, 1) == ((0,), (0, 0), (0, 0, 0), (0, 0, 0, 0))
