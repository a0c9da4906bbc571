"""The loop: AR is Hugging Face's own decoding, and every drafter gives AR's text."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
import torch

from dflash_bench.engine.loop import Admitted, Event, RowStep, generate
from dflash_bench.engine.methods.ar import AutoregressiveDrafter
from dflash_bench.engine.methods.base import Drafter
from dflash_bench.engine.request import Request
from dflash_bench.engine.sampling import Sampling
from dflash_bench.engine.target import Target
from dflash_bench.errors import ConfigError
from tests.unit.engine.tiny import (
    GREEDY,
    VOCAB,
    OracleDrafter,
    build_dflash,
    build_model,
    build_requests,
    build_target,
    outputs,
    texts_by_prompt,
)

WARM = Sampling(temperature=1.0, seed=7)
AR = AutoregressiveDrafter()


@pytest.fixture(scope="module")
def target() -> Target:
    return build_target()


def oracle(
    target: Target, requests: Sequence[Request], block_size: int, error: float, seed: int = 0
) -> OracleDrafter:
    """Return a drafter that knows AR's text without its end, wrong with probability `error`."""
    endless = [replace(r, max_new_tokens=60, stop_ids=frozenset()) for r in requests]
    texts = texts_by_prompt(endless, outputs(target, AR, endless, batch_size=8))
    random = Random(seed)
    script = [random.randrange(VOCAB) if random.random() < error else None for _ in range(997)]
    return OracleDrafter(texts, block_size, script)


def run(
    target: Target, drafter: Drafter, requests: Sequence[Request], batch_size: int
) -> list[Event]:
    return list(generate(target, drafter, requests, batch_size=batch_size, sampling=GREEDY))


def steps_by_request(events: Sequence[Event]) -> dict[str, list[RowStep]]:
    steps = defaultdict(list)
    for event in events:
        for row in () if isinstance(event, Admitted) else event.rows:
            steps[row.request_id].append(row)
    return steps


@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_greedy_ar_equals_hugging_face_generate(family: str) -> None:
    model, requests = build_model(family).eval(), build_requests(4)
    texts = outputs(Target.from_model(model), AR, requests)
    for request in requests:
        prompt = torch.tensor([request.prompt])
        whole = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=request.max_new_tokens,
            pad_token_id=0,
        )
        assert texts[request.id] == whole[0, len(request.prompt) :].tolist()


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "sampled"])
@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_dflash_gives_the_text_of_ar_in_any_batch(family: str, sampling: Sampling) -> None:
    target, requests = build_target(family), build_requests(6, max_new_tokens=12)
    alone = outputs(target, AR, requests, 1, sampling)
    for batch_size in (1, 4, 8):  # fewer and more slots than requests
        for drafter in (AR, build_dflash(target)):
            assert outputs(target, drafter, requests, batch_size, sampling) == alone


def test_sampling_is_reproducible_and_depends_on_seed_and_key(target: Target) -> None:
    requests = build_requests(2)
    texts = outputs(target, AR, requests, 1, WARM)
    assert outputs(target, AR, requests, 2, WARM) == texts
    assert outputs(target, AR, requests, 1, replace(WARM, seed=8)) != texts
    assert outputs(target, AR, [replace(r, key=1) for r in requests], 1, WARM) != texts
    assert outputs(target, AR, requests, 1, GREEDY) != texts


@pytest.mark.parametrize("batch_size", [1, 4])
def test_every_accept_length_occurs_and_the_text_is_ars(target: Target, batch_size: int) -> None:
    requests = build_requests(6, max_new_tokens=40)
    alone = outputs(target, AR, requests)
    drafter = oracle(target, requests, block_size=4, error=0.3)
    events = run(target, drafter, requests, batch_size)
    assert outputs(target, drafter, requests, batch_size) == alone
    rows = [row for steps in steps_by_request(events).values() for row in steps]
    assert {row.accepted for row in rows if not row.cut} == {0, 1, 2, 3}


def test_a_perfect_drafter_commits_whole_blocks(target: Target) -> None:
    requests = build_requests(3, max_new_tokens=17)  # 1 from the prefill, 4 blocks of 4
    for steps in steps_by_request(
        run(target, oracle(target, requests, 4, error=0.0), requests, batch_size=3)
    ).values():
        assert [len(step.tokens) for step in steps] == [4, 4, 4, 4]
        assert [step.cut for step in steps] == [0, 0, 0, 0]
        assert [step.finished for step in steps] == [None, None, None, "length"]


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_tree_commits_its_true_path_wherever_it_lies(target: Target, batch_size: int) -> None:
    requests = build_requests(6, max_new_tokens=40)
    alone = outputs(target, AR, requests)
    # The truth is the second child, then the first, then the third; others are right by chance only.
    tree, script = [0, 0, 2, 3, 3, 3, 2], [1, None, None, 1, 2, None, 1]
    drafter = OracleDrafter(texts_by_prompt(requests, alone), 8, script, trees=[tree])
    events = run(target, drafter, requests, batch_size)
    assert outputs(target, drafter, requests, batch_size) == alone
    rows = [row for steps in steps_by_request(events).values() for row in steps]
    assert {(row.scheduled, row.drafted, row.depth) for row in rows} == {(8, 7, 3)}
    assert all(len(row.tokens) == 4 for row in rows if not row.finished and row.tokens[0] != 1)


PENALISED = Sampling(repetition_penalty=1.4, presence_penalty=0.5, frequency_penalty=0.3)
CUT = Sampling(1.0, seed=7, top_k=8, top_p=0.7, repetition_penalty=1.2, presence_penalty=0.4)


@pytest.mark.parametrize("sampling", [PENALISED, CUT], ids=["greedy", "sampled"])
@pytest.mark.parametrize("trees", [None, [[0, 0, 1, 2, 2]]], ids=["chain", "tree"])
def test_penalties_and_cuts_give_the_text_of_ar(
    target: Target, sampling: Sampling, trees: list[list[int]] | None
) -> None:
    requests = build_requests(6, max_new_tokens=20)
    alone = outputs(target, AR, requests, 1, sampling)
    plain = replace(sampling, repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0)
    assert outputs(target, AR, requests, 1, plain) != alone, "the penalties must change something"
    drafter = OracleDrafter(texts_by_prompt(requests, alone), 6, [None, None, 5], trees=trees)
    for batch_size in (1, 4):
        assert outputs(target, AR, requests, batch_size, sampling) == alone
        assert outputs(target, drafter, requests, batch_size, sampling) == alone


def test_penalised_ar_is_a_plain_recomputation() -> None:
    """Every output token counts from the first one on, of which the prefill is the source."""
    model, requests = build_model().eval(), build_requests(3, max_new_tokens=16)
    texts = outputs(Target.from_model(model), AR, requests, 2, PENALISED)
    for request in requests:
        output = list[int]()
        for _ in range(request.max_new_tokens):
            logits = model(torch.tensor([[*request.prompt, *output]])).logits[0, -1]
            for token in {*request.prompt, *output}:
                logits[token] *= 1 / 1.4 if logits[token] > 0 else 1.4
            for token in set(output):
                logits[token] -= 0.5 + 0.3 * output.count(token)
            output.append(int(logits.argmax()))
        assert texts[request.id] == output


def test_ar_has_one_text_under_all_rules(target: Target) -> None:
    requests = build_requests(3)
    alone = outputs(target, AR, requests, 1, WARM)
    assert outputs(target, AR, requests, 2, WARM, "reject") == alone
    assert outputs(target, AR, requests, 2, WARM, "typical") == alone


def test_under_reject_a_text_does_not_depend_on_its_batch(target: Target) -> None:
    requests, drafter = build_requests(6), build_dflash(target)
    alone = outputs(target, drafter, requests, 1, WARM, "reject")
    assert outputs(target, drafter, requests, 4, WARM, "reject") == alone
    assert outputs(target, AR, requests, 1, WARM) != alone


def test_fewer_drafts_of_a_row_are_counted_as_offered(target: Target) -> None:
    requests = build_requests(2, max_new_tokens=12)
    alone = outputs(target, AR, requests)
    drafter = OracleDrafter(texts_by_prompt(requests, alone), 4, counts=[0, 1, 2, 3])
    events = run(target, drafter, requests, batch_size=1)
    rows = [row for steps in steps_by_request(events).values() for row in steps]
    assert {row.drafted for row in rows} == {0, 1, 2, 3}
    assert all(row.depth == row.drafted for row in rows)
    assert all(row.accepted <= row.drafted for row in rows)
    assert outputs(target, drafter, requests, 2) == alone


def test_a_text_ends_at_its_end_token_inside_a_burst(target: Target) -> None:
    requests = build_requests(6, max_new_tokens=40)
    alone = outputs(target, AR, requests)
    # A token from the middle of each text ends it, wherever in a block it happens to stand.
    ending = [replace(r, stop_ids=frozenset({alone[r.id][5 + i]})) for i, r in enumerate(requests)]
    texts = outputs(target, AR, ending)
    assert all(len(texts[r.id]) <= 6 + i for i, r in enumerate(ending))
    drafter = oracle(target, ending, block_size=5, error=0.1)
    for batch_size in (1, 4):
        assert outputs(target, drafter, ending, batch_size) == texts
    steps = steps_by_request(run(target, drafter, ending, batch_size=4))
    assert any(step.cut and step.finished == "eos" for rows in steps.values() for step in rows)


def test_a_text_ends_at_a_stop_string_inside_a_burst(target: Target) -> None:
    requests = build_requests(2, max_new_tokens=40)
    alone = outputs(target, AR, requests)

    def stop_after(pair: Sequence[int]) -> Request:
        def find_stop(output: Sequence[int]) -> int | None:
            ends = (i for i in range(2, len(output) + 1) if list(output[i - 2 : i]) == list(pair))
            return next(ends, None)

        return replace(requests[0], find_stop=find_stop)

    stopping = [stop_after(alone["r0"][6:8])]
    texts = outputs(target, AR, stopping)
    assert len(texts["r0"]) <= 8
    assert outputs(target, oracle(target, requests, 6, error=0.0), stopping) == texts


def test_the_accounts_balance(target: Target) -> None:
    requests = build_requests(7, max_new_tokens=23)
    stop = frozenset({4, 5})
    requests = [replace(request, stop_ids=stop) for request in requests]
    drafter = oracle(target, requests, block_size=6, error=0.2)
    events = run(target, drafter, requests, batch_size=3)
    texts = outputs(target, drafter, requests, batch_size=3)
    for name, steps in steps_by_request(events).items():
        assert sum(len(step.tokens) for step in steps) == len(texts[name]) - 1
        assert all(step.accepted == len(step.tokens) - 1 for step in steps)
        assert all(0 <= step.accepted <= step.drafted for step in steps)
        assert [step.finished is None for step in steps] == [True] * (len(steps) - 1) + [False]
        assert not any(step.cut for step in steps[:-1])


def test_a_request_may_end_with_its_first_token(target: Target) -> None:
    requests = [replace(r, max_new_tokens=1) for r in build_requests(3)]
    events = run(target, AR, requests, batch_size=2)
    assert [type(event) for event in events] == [Admitted] * 3
    assert {event.finished for event in events if isinstance(event, Admitted)} == {"length"}


def test_free_slots_are_refilled_at_once(target: Target) -> None:
    lengths = [3, 9, 5, 7, 2, 4]
    requests = [
        replace(r, max_new_tokens=n) for r, n in zip(build_requests(6), lengths, strict=True)
    ]
    events = run(target, AR, requests, batch_size=2)
    waiting = len(requests)
    for event in events:
        if isinstance(event, Admitted):
            waiting -= 1
        else:
            assert len(event.rows) == 2 or waiting == 0
    assert [e.active for e in events if isinstance(e, Admitted)] == [1, 2, 2, 2, 2, 2]


def test_requests_that_cannot_fit_are_refused_before_anything_runs(target: Target) -> None:
    good, other = build_requests(2)
    for bad, match in (
        (replace(other, max_new_tokens=256), "needs 264 positions.*has 256"),
        (replace(other, prompt=()), "0 prompt tokens"),
        (replace(other, max_new_tokens=0), "asks for 0 new"),
    ):
        with pytest.raises(ConfigError, match=match):
            generate(target, AR, [good, bad], batch_size=1, sampling=GREEDY)
    with pytest.raises(ConfigError, match="Two requests have the id r0"):
        generate(target, AR, [good, good], batch_size=1, sampling=GREEDY)
    with pytest.raises(ConfigError, match="batch_size is 0"):
        generate(target, AR, [good], batch_size=0, sampling=GREEDY)


def test_inference_mode_ends_where_the_caller_goes_on(target: Target) -> None:
    for _ in generate(target, AR, build_requests(1, 3), batch_size=1, sampling=GREEDY):
        assert not torch.is_inference_mode_enabled()


def test_nothing_asked_gives_nothing(target: Target) -> None:
    assert run(target, AR, [], batch_size=2) == []
