"""Losslessness: whatever is drafted, the text is that of plain decoding."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dflash_bench.engine.loop import Admitted, generate
from dflash_bench.engine.methods.ar import AutoregressiveDrafter
from dflash_bench.engine.request import Request
from dflash_bench.engine.sampling import Sampling
from dflash_bench.engine.state import Slot
from dflash_bench.engine.target import Target
from tests.unit.engine.tiny import (
    VOCAB,
    OracleDrafter,
    build_requests,
    build_target,
    outputs,
    texts_by_prompt,
)

Texts = dict[str, list[int]]
GREEDY, WARM = Sampling(), Sampling(temperature=1.0, seed=3)
SAMPLINGS = [
    GREEDY,
    WARM,
    Sampling(repetition_penalty=1.3, presence_penalty=0.7, frequency_penalty=0.4),
    Sampling(1.0, 3, top_k=9, top_p=0.8, repetition_penalty=1.2, frequency_penalty=0.5),
]


@cache
def plain(sampling: Sampling) -> tuple[Target, list[Request], Texts]:
    """Return a target, requests, and their texts as decoded one token at a time, one by one."""
    target, requests = build_target(), build_requests(4, max_new_tokens=10)
    return target, requests, outputs(target, AutoregressiveDrafter(), requests, 1, sampling)


# None stands for the token that AR will say: without it, arbitrary drafts would hardly ever be
# accepted.
drafted_token = st.none() | st.integers(0, VOCAB - 1)


@given(
    script=st.lists(drafted_token, min_size=1, max_size=40),
    block_size=st.integers(2, 7),
    batch_size=st.integers(1, 5),
    sampling=st.sampled_from(SAMPLINGS),
    ragged=st.booleans(),
    branching=st.booleans(),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_any_drafts_give_the_text_of_ar(
    script: list[int | None],
    block_size: int,
    batch_size: int,
    sampling: Sampling,
    ragged: bool,
    branching: bool,
    data: st.DataObject,
) -> None:
    target, requests, texts = plain(sampling)
    offered = st.lists(st.integers(0, block_size - 1), min_size=1, max_size=10)
    counts = data.draw(offered) if ragged else None
    # Any tree: each node follows the anchor or any node before it.
    tree = st.tuples(*(st.integers(0, node) for node in range(block_size - 1)))
    trees = data.draw(st.lists(tree, min_size=1, max_size=5)) if branching else None
    drafter = OracleDrafter(texts_by_prompt(requests, texts), block_size, script, counts, trees)
    assert outputs(target, drafter, requests, batch_size, sampling) == texts


def test_without_the_rollback_the_texts_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """The property is not vacuous: let lengths move by the whole block, and it fails."""
    target, requests, texts = plain(GREEDY)
    block_size, commit = 4, Slot.commit
    steps: dict[str, int] = {}

    def counted(slot: Slot, burst: list[int]) -> tuple[int, ...]:
        steps[slot.request.id] = steps.get(slot.request.id, -1) + 1  # the prefill is no step
        return commit(slot, burst)

    def forgotten(slot: Slot) -> int:
        return len(slot.request.prompt) + block_size * steps[slot.request.id]

    monkeypatch.setattr(Slot, "commit", counted)
    monkeypatch.setattr(Slot, "length", property(forgotten))
    # Room for every rejected token that now stays: the failure shall be the text's, not an
    # overflow's.
    roomy = [Request(r.id, r.prompt, 10 * block_size, r.stop_ids, r.key) for r in requests]
    wrong = OracleDrafter(texts_by_prompt(requests, texts), block_size, script=[0])
    differing: Texts = {request.id: [] for request in requests}
    for event in generate(target, wrong, roomy, batch_size=4, sampling=GREEDY):
        if isinstance(event, Admitted):
            differing[event.request_id].append(event.first_token)
            continue
        for row in event.rows:
            differing[row.request_id] += row.tokens
        if min(len(text) for text in differing.values()) >= 10:
            break
    assert all(differing[r.id][:10] != texts[r.id] for r in requests)
