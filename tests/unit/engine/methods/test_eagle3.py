"""The EAGLE-3 drafter in the loop, against a plain recomputation without any cache."""

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dflash_bench.engine.draft import Anchors, Draft
from dflash_bench.engine.loop import Admitted, generate
from dflash_bench.engine.methods import eagle3_checkpoint
from dflash_bench.engine.methods.ar import AutoregressiveDrafter
from dflash_bench.engine.methods.eagle3 import Eagle3Drafter, build
from dflash_bench.engine.methods.eagle3_model import Eagle3Model
from dflash_bench.engine.methods.eagle3_tree import TreeShape
from dflash_bench.engine.request import Request
from dflash_bench.engine.sampling import Sampling
from dflash_bench.engine.target import Target
from dflash_bench.engine.verify import Rule
from dflash_bench.errors import ConfigError
from tests.unit.engine.methods.tiny_eagle3 import DRAFTED, TAPS, build_drafter, build_network
from tests.unit.engine.tiny import (
    GREEDY,
    VOCAB,
    build_model,
    build_requests,
    build_target,
    outputs,
)

TREE = TreeShape(top_k=3, depth=4)
REQUESTS = build_requests(3, max_new_tokens=7)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"norm_before_residual": True, "norm_before_fc": True, "attention_bias": True},
    {"fc_norm": True, "norm_output": True, "own_embeddings": True, "num_key_value_heads": 4},
    {"draft_vocab_size": VOCAB, "rope_parameters": {"rope_type": "linear", "rope_theta": 500.0, "factor": 2.0}},
]  # fmt: skip


class Recorder(Eagle3Drafter):
    """A drafter that remembers what it drafted last, and may be told what to say instead.

    `truth` is what the one request of a batch has to answer, its prompt included: of the first two
    drafts the tokens are replaced by it, so that they are accepted.
    """

    drafted: Draft
    truth: Sequence[int] = ()

    def draft_block(self, anchors: Anchors) -> Draft:
        self.drafted = draft = super().draft_block(anchors)
        tokens, parents = draft.tokens.clone(), draft.parents
        node, start = 0, anchors.lengths[0] + 1
        for token in self.truth[start : start + 2]:
            children = [node] if parents is None else (parents[0] == node).nonzero()[:, 0].tolist()
            if not children:
                break
            node = next((c for c in children if tokens[0, c] == token), children[0])
            tokens[0, node] = token
            node += 1
        return Draft(tokens, parents, probs=draft.probs)


class Reference:
    """The network run over a whole text at once: no cache, attention written out by hand."""

    def __init__(self, network: Eagle3Model, model: Any) -> None:
        self.network, self.model = network, model

    def logits(self, text: Sequence[int], path: Sequence[int] = (), tap_shift: int = 0) -> Tensor:
        """Return the draft logits [V'] after `text` and a `path` of drafts behind it."""
        known = list(text)
        entries = self._fused(tuple(known[:-1]), tap_shift)
        following = [*known[1:], *path]
        for number in range(len(path) + 1):
            inputs = entries[: len(known) - 1 + number]
            put_out = self._layer(inputs, following[: len(inputs)])
            entries = torch.cat((inputs, put_out[-1:]))
        return self.network.logits(entries[-1])

    @lru_cache  # noqa: B019 - it lives as long as a test
    def _fused(self, tokens: tuple[int, ...], tap_shift: int) -> Tensor:
        """Return the fused features [T, H] of a text."""
        states = self.model(torch.tensor([tokens]), output_hidden_states=True).hidden_states
        # hidden_states[0] is the embedding: the output of layer i is number i + 1.
        features = torch.cat([states[i + 1 + tap_shift] for i in TAPS], -1)
        fused: Tensor = self.network.fuse(features)[0]
        return fused

    def _layer(self, entries: Tensor, following: Sequence[int]) -> Tensor:
        embed = self.model.get_input_embeddings()
        if self.network.config.own_embeddings:
            embed = self.network.embed_tokens
        count = len(following)
        seen = torch.ones(count, count).tril() > 0

        def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            group = queries.shape[2] // keys.shape[2]
            keys, values = (x.repeat_interleave(group, 2) for x in (keys, values))
            scores = torch.einsum("aqhd,akhd->ahqk", queries, keys) / queries.shape[-1] ** 0.5
            weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
            return torch.einsum("ahqk,akhd->aqhd", weights, values).flatten(2)

        rotary = self.network.rotary(torch.arange(count)[None])
        embedded = embed(torch.tensor([following]))
        put_out: Tensor = self.network(embedded, entries[None], rotary, attend)[0]
        return put_out


def drafts_in_the_loop(
    drafter: Recorder,
    target: Target,
    sampling: Sampling,
    requests: Sequence[Request],
    rule: Rule = "match",
) -> Iterator[tuple[list[int], Draft, int]]:
    """Run the loop; yields (the text with its pending token, the draft, the row) of every step."""
    texts = {request.id: list(request.prompt) for request in requests}
    for event in generate(target, drafter, requests, batch_size=2, sampling=sampling, rule=rule):
        if isinstance(event, Admitted):
            texts[event.request_id].append(event.first_token)
            continue
        for row, step in enumerate(event.rows):
            yield list(texts[step.request_id]), drafter.drafted, row
            texts[step.request_id] += step.tokens


@pytest.mark.parametrize("options", OPTIONS)
def test_a_chain_equals_a_recomputation_without_cache(options: dict[str, Any]) -> None:
    model = build_model()
    target, network = Target.from_model(model), build_network(**options)
    drafter, reference = Recorder(network, target, TAPS, 5), Reference(network, model)
    ids, compared = network.drafted(), 0
    for text, draft, row in drafts_in_the_loop(drafter, target, Sampling(1.0, 2), REQUESTS):
        path = draft.tokens[row].tolist()
        for length, token in enumerate(path):
            assert token == ids[reference.logits(text, path[:length]).argmax()]
        compared += 1
    assert compared > 10


def test_the_comparison_would_see_a_wrong_tap() -> None:
    model, text = build_model(), list(range(10, 25))
    reference = Reference(build_network(), model)
    assert not torch.allclose(reference.logits(text), reference.logits(text, tap_shift=-1))


def test_the_law_of_a_drawn_chain_is_the_networks_over_the_targets_vocabulary() -> None:
    model = build_model()
    target, network = Target.from_model(model), build_network()
    drafter, reference = Recorder(network, target, TAPS, 4), Reference(network, model)
    temperature, drawn = 2.0, 0
    sampling = Sampling(temperature, seed=4)
    anchors_law = []
    for text, draft, row in drafts_in_the_loop(drafter, target, sampling, REQUESTS, "reject"):
        assert draft.probs is not None
        path = draft.tokens[row].tolist()
        for length, token in enumerate(path):
            law = (reference.logits(text, path[:length]).double() / temperature).softmax(-1)
            whole = torch.zeros(VOCAB, dtype=torch.float64)
            whole[list(DRAFTED)] = law
            assert torch.allclose(draft.probs[row, length], whole, atol=1e-5)
            assert draft.probs[row, length, token] > 0
            anchors_law.append(token == DRAFTED[int(law.argmax())])
            drawn += 1
    assert drawn > 30
    assert not all(anchors_law)  # drawn, not chosen


def test_a_tree_holds_the_likeliest_paths_of_a_recomputed_beam() -> None:
    model = build_model()
    target, network = Target.from_model(model), build_network()
    drafter = Recorder(network, target, TAPS, 9, TREE)
    reference, compared = Reference(network, model), 0
    for text, draft, row in drafts_in_the_loop(drafter, target, Sampling(1.0, 2), REQUESTS):
        assert draft.parents is not None
        found = paths(draft.tokens[row].tolist(), draft.parents[row].tolist())
        assert found == best_paths(reference, text, TREE, 8)
        compared += 1
    assert compared > 10


@pytest.mark.parametrize("tree", [None, TREE])
def test_what_is_drafted_after_an_accepted_path_is_the_same_as_well(tree: TreeShape | None) -> None:
    model = build_model()
    target, network = Target.from_model(model), build_network()
    request = build_requests(1, max_new_tokens=16)[0]
    plain = outputs(target, AutoregressiveDrafter(), [request])[request.id]
    drafter, reference = Recorder(network, target, TAPS, 9, tree), Reference(network, model)
    drafter.truth = [*request.prompt, *plain]
    lengths = []
    for text, draft, _ in drafts_in_the_loop(drafter, target, GREEDY, [request]):
        lengths.append(len(text))
        if draft.parents is not None:
            found = paths(draft.tokens[0].tolist(), draft.parents[0].tolist())
            assert found == best_paths(reference, text, TREE, 8)
        else:
            assert draft.tokens[0, 0] == DRAFTED[int(reference.logits(text).argmax())]
    assert max(b - a for a, b in itertools.pairwise(lengths)) >= 3


def paths(tokens: list[int], parents: list[int]) -> set[tuple[int, ...]]:
    """Return every node of a tree as the tokens on its path from the anchor."""
    block: list[tuple[int, ...]] = [()]
    for token, parent in zip(tokens, parents, strict=True):
        block.append((*block[parent], token))  # an IndexError where a child precedes its parent
    assert len(set(block)) == len(block), "two siblings with one token"
    return set(block[1:])


def best_paths(
    reference: Reference, text: list[int], shape: TreeShape, size: int
) -> set[tuple[int, ...]]:
    """Grow the same tree from scratch, one path at a time."""
    level: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    offered: list[tuple[float, tuple[int, ...]]] = []
    for _ in range(shape.depth):
        children = []
        for score, path in level:
            best = reference.logits(text, path).log_softmax(-1).topk(shape.top_k)
            pairs = zip(best.values.tolist(), best.indices.tolist(), strict=True)
            children += [(score + value, (*path, DRAFTED[index])) for value, index in pairs]
        offered += children
        level = sorted(children, reverse=True)[: shape.top_k]
    return {path for _, path in sorted(offered, reverse=True)[:size]}


@pytest.mark.parametrize("family", ["qwen3", "llama"])
@pytest.mark.parametrize("tree", [None, TREE, TreeShape(top_k=1, depth=6)])
@pytest.mark.parametrize("sampling", [GREEDY, Sampling(0.8, seed=3)])
def test_texts_are_those_of_plain_decoding(
    family: str, tree: TreeShape | None, sampling: Sampling
) -> None:
    target, requests = build_target(family), build_requests(4, max_new_tokens=12)
    plain = outputs(target, AutoregressiveDrafter(), requests, 1, sampling)
    drafter = build_drafter(target, 7, tree, draft_vocab_size=VOCAB)
    for batch_size in (1, 3):
        drafted = outputs(target, drafter, requests, batch_size, sampling)
        assert drafted == {name: plain[name] for name in drafted}
        assert len(drafted) == len(requests)


@pytest.mark.parametrize(
    ("block_size", "tree"), [(2, None), (2, TREE), (9, TreeShape(top_k=3, depth=1))]
)
def test_the_smallest_drafts(block_size: int, tree: TreeShape | None) -> None:
    target, requests = build_target(), build_requests(2, max_new_tokens=5)
    drafter = build_drafter(target, block_size, tree)
    assert outputs(target, drafter, requests, 2) == outputs(
        target, AutoregressiveDrafter(), requests, 2
    )


class TestBuild:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        eagle3_checkpoint.save(build_network(), tmp_path)
        return tmp_path

    def test_a_chain_has_8_nodes_and_a_tree_60_unless_asked(self, folder: Path) -> None:
        target, loaded = build_target(), dict[object, Any]()
        assert build(target, {"draft": folder}, loaded).block_size == 8
        assert build(target, {"draft": str(folder), "tree": {}}, loaded).block_size == 60
        five = build(target, {"draft": folder, "tree": {"top_k": None}, "block_size": 5}, loaded)
        assert five.block_size == 5
        assert five.taps == TAPS
        assert len(loaded) == 1

    def test_a_tree_of_fewer_nodes_is_the_block(self, folder: Path) -> None:
        small = {"draft": folder, "tree": {"top_k": 2, "depth": 2}}
        assert build(build_target(), small, {}).block_size == 1 + 2 + 4
        wide = {
            "draft": folder,
            "tree": {"top_k": 99, "depth": 1},
        }  # of 16 tokens that can be drafted
        assert build(build_target(), wide, {}).block_size == 1 + 16

    def test_what_it_builds_drafts(self, folder: Path) -> None:
        target, requests = build_target(), build_requests(3)
        plain = outputs(target, AutoregressiveDrafter(), requests)
        for tree in (None, {"top_k": 99, "depth": 3}):  # more children than the vocabulary has
            drafter = build(target, {"draft": folder, "tree": tree}, {})
            assert outputs(target, drafter, requests, 3) == plain

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"draft": None}, "needs a drafter, but draft is None"),
            ({"block_size": 1}, "block_size is 1"),
            ({"block_size": True}, "block_size is True"),
            (
                {"block_size": 8, "tree": {"top_k": 2, "depth": 2}},
                "block_size is 8, but .* has 7 nodes",
            ),
            ({"tree": 3}, "tree is 3"),
            ({"tree": {"topk": 3}}, "tree has no topk"),
            ({"tree": {"depth": 0}}, "tree.depth is 0"),
            ({"tree": {"top_k": 2.0}}, "tree.top_k is 2.0"),
        ],
    )
    def test_settings_that_cannot_be(
        self, folder: Path, settings: dict[str, object], said: str
    ) -> None:
        with pytest.raises(ConfigError, match=said):
            build(build_target(), {"draft": folder, **settings}, {})
