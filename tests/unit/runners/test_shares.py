"""Shares and windows, on schedules that are known to the clock tick."""

import json
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_bench.records.schema import Acceptance, Answer, Share, Steps, Totals
from dflash_bench.runners.base import Load, Request
from dflash_bench.runners.client.exchange import Exchange
from dflash_bench.runners.dialects.base import Reply
from dflash_bench.runners.server.shares import Shares, plain_steps, steps_in


def request(name: str, prompt: int = 3) -> Request:
    return Request(name, tuple(range(prompt)), 0, 64)


def exchange(name: str, slot_s: float, sent_s: float, ended_s: float) -> Exchange:
    return Exchange(name, slot_s, sent_s, ended_s, 200, None, ())


def reply(times: list[float], tokens: list[int] | None = None, **told: object) -> Reply:
    counts = tokens or [1] * len(times)
    total = sum(counts)
    return Reply(
        ids=tuple(range(total)),
        output_tokens=total,
        finish_reason="length",
        prompt_tokens=3,
        chunks=tuple(zip(times, counts, strict=True)),
        **told,  # type: ignore[arg-type]
    )


def taken(
    exchanges: list[tuple[Exchange, Reply]], full_s: float, load: Load, drafts: bool = False
) -> tuple[list[Answer], Totals]:
    shares = Shares(full_s, len(exchanges), load, drafts)
    answers = [shares.take(request(each.id), each, said, "text") for each, said in exchanges]
    return answers, shares.totals()


def seconds(share: Share | None) -> float:
    assert share is not None
    return (share.prefill_s or 0.0) + (share.decode_s or 0.0)


def schedule(durations: list[float], batch: int, wait: float) -> tuple[list[Exchange], float]:
    """Simulate a closed loop: every slot takes the next request `wait` after its last one ended."""
    slots = [0.0] * min(batch, len(durations))
    done, firsts = list[Exchange](), list[float]()
    for number, duration in enumerate(durations):
        index = slots.index(min(slots))
        sent_s = slots[index] + wait * (1 + number % 3)
        if number < len(slots):
            firsts.append(sent_s)
        done.append(exchange(f"r{number}", slots[index], sent_s, sent_s + duration))
        slots[index] = sent_s + duration
    return sorted(done, key=lambda each: each.ended_s), max(firsts)


def spoken(each: Exchange, tokens: int) -> Reply:
    """Answer with `tokens` tokens at even distances, the last one at the end."""
    gap = (each.ended_s - each.sent_s) / tokens
    return reply([each.sent_s + gap * (index + 1) for index in range(tokens - 1)] + [each.ended_s])


@given(
    durations=st.lists(st.floats(0.01, 9), min_size=1, max_size=20),
    batch=st.integers(1, 6),
    wait=st.floats(0, 0.01),
)
def test_in_a_closed_loop_shares_tile_the_window(
    durations: list[float], batch: int, wait: float
) -> None:
    exchanges, full_s = schedule(durations, batch, wait)
    answers, totals = taken([(each, spoken(each, 5)) for each in exchanges], full_s, Load(batch))
    wall = totals.window_wall_s
    assert wall is not None
    assert isclose(sum(seconds(a.window) for a in answers), wall, rel_tol=1e-9, abs_tol=1e-9)
    assert totals.window_phases is not None
    summed = (totals.window_phases.prefill_s or 0.0) + (totals.window_phases.decode_s or 0.0)
    assert isclose(summed, wall, rel_tol=1e-9, abs_tol=1e-9)
    if wall > 0:
        assert totals.occupancy is not None
        assert totals.occupancy <= min(1.0, len(durations) / batch) + 1e-9
    # Each request is counted once at most, and plain decoding is one step a token.
    for answer in answers:
        assert answer.window is not None
        assert 0 <= answer.window.tokens <= 5
        assert answer.window.steps == answer.window.decode_tokens
        assert answer.window.accepted == 0


def test_one_at_a_time_the_window_is_the_visit_and_everything_is_in_it() -> None:
    exchanges, full_s = schedule([1.0, 2.0], batch=1, wait=0.5)
    answers, totals = taken([(each, spoken(each, 4)) for each in exchanges], full_s, Load(1))
    assert [answer.window and answer.window.tokens for answer in answers] == [4, 4]
    assert [answer.window and answer.window.decode_tokens for answer in answers] == [3, 3]
    # The first request's wait for its sending lies before the window, the second's within.
    assert totals.wall_s == pytest.approx(4.5)
    assert totals.window_wall_s == pytest.approx(4.0)
    assert totals.occupancy == pytest.approx(3.0 / 4.0)
    assert totals.row_steps == 6


def test_the_window_ends_when_a_slot_finds_nothing_left() -> None:
    pairs = [
        (exchange("a", 0.0, 0.0, 2.0), reply([1.0, 2.0])),
        (exchange("b", 0.0, 0.5, 3.0), reply([1.0, 3.0])),
        (exchange("c", 2.0, 2.0, 6.0), reply([4.0, 6.0])),
    ]
    answers, totals = taken(pairs, full_s=0.5, load=Load(2))
    assert totals.window_wall_s == 2.5
    assert [seconds(answer.window) for answer in answers] == [0.75, 1.25, 0.5]
    assert [answer.window and answer.window.tokens for answer in answers] == [2, 2, 0]
    assert answers[0].window is not None
    assert (answers[0].window.prefill_s, answers[0].window.decode_s) == (0.25, 0.5)
    assert (answers[1].ttft_s, answers[1].e2e_s) == (0.5, 2.5)
    assert answers[1].client_queue_s is None


def test_steps_count_where_their_last_token_arrived() -> None:
    steps = Steps(
        drafted=(3, 3, 3), accepted=(1, 2, 0), committed=(2, 3, 1), cut=(0, 0, 1)
    )  # tokens 1, 2 | 3, 4, 5 | 6
    told = reply([1.0, 2.0, 3.0, 4.0], [1, 2, 3, 1], steps=steps)
    pairs = [(exchange("a", 0.0, 0.0, 4.0), told), (exchange("b", 0.0, 1.5, 3.5), reply([3.5]))]
    answers, _ = taken(sorted(pairs, key=lambda pair: pair[0].ended_s), 1.5, Load(2), drafts=True)
    window = answers[1].window
    assert window is not None
    # From 1.5 s, when the second slot was filled, to 3.5 s, when it was empty: the second and the third chunk.
    assert (window.tokens, window.decode_tokens) == (5, 5)
    assert (window.steps, window.drafted, window.accepted) == (2, 6, 3)


def test_steps_told_as_a_sum_are_spread_over_decoded_tokens() -> None:
    told = Acceptance(source="test", steps=4, drafted=28, accepted=6, overshoot=1)
    said = reply([1.0, 2.0, 3.0], [1, 4, 5], acceptance=told)
    assert steps_in(said, None, before=0, inside=10, decoded=9) == (4, 28)
    assert steps_in(said, None, before=0, inside=5, decoded=4) == (2, 12)
    untold = reply([1.0, 2.0], acceptance=Acceptance(source="test", accepted=1))
    assert steps_in(untold, None, before=0, inside=2, decoded=1) == (None, None)
    whole, _ = taken([(exchange("a", 0, 0, 3.0), said)], 0, Load(1), drafts=True)
    window = whole[0].window
    assert window is not None
    # output tokens - 1 = steps + accepted - overshoot
    assert (window.decode_tokens, window.steps, window.accepted) == (9, 4, 5)


def test_what_a_drafting_server_does_not_tell_stays_null() -> None:
    answers, totals = taken(
        [(exchange("a", 0, 0, 3.0), reply([1.0, 2.0, 3.0], [1, 4, 5]))], 0, Load(1), drafts=True
    )
    window = answers[0].window
    assert window is not None
    assert (window.steps, window.drafted, window.accepted) == (None, None, None)
    assert (answers[0].steps, totals.row_steps) == (None, None)
    assert window.decode_tokens == 9


def test_plain_decoding_is_one_pass_a_token() -> None:
    assert plain_steps(3) == Steps(drafted=(0, 0), accepted=(0, 0), committed=(1, 1), cut=(0, 0))
    assert plain_steps(1) == plain_steps(0) == Steps(drafted=(), accepted=(), committed=(), cut=())


def test_without_chunk_counts_tokens_are_spread_from_first_to_last() -> None:
    said = Reply(output_tokens=5, finish_reason="length", first_s=1.0, last_s=5.0)
    pairs = [(exchange("b", 0, 0.0, 2.5), reply([2.5])), (exchange("a", 0, 0.0, 5.0), said)]
    answers, _ = taken(pairs, 0.0, Load(2))
    window = answers[1].window
    assert window is not None
    assert (window.tokens, window.decode_tokens) == (2, 1)  # at 1 s and 2 s; the window ends at 2.5
    assert (answers[1].ttft_s, answers[1].e2e_s, answers[1].chunks) == (1.0, 5.0, None)


def test_an_answer_that_is_no_stream_shows_no_first_token() -> None:
    said = Reply(output_tokens=5, finish_reason="length")
    answers, totals = taken([(exchange("a", 0.0, 0.5, 4.5), said)], 0.0, Load(1))
    window = answers[0].window
    assert window is not None
    assert (window.prefill_s, window.decode_s, window.tokens) == (None, 4.5, 5)
    assert (answers[0].ttft_s, answers[0].e2e_s) == (None, 4.0)
    assert totals.window_phases is not None
    assert totals.window_phases.prefill_s is None


def test_in_an_open_loop_a_share_is_all_the_time_since_due() -> None:
    pairs = [
        (exchange("a", 0.0, 0.0, 2.0), reply([1.0, 2.0])),
        (exchange("b", 0.5, 2.0, 4.0), reply([3.0, 4.0])),
    ]
    answers, totals = taken(pairs, 0.0, Load(4, request_rate=2.0))
    assert [seconds(answer.window) for answer in answers] == [2.0, 3.5]
    assert [answer.client_queue_s for answer in answers] == [0.0, 1.5]
    assert [answer.window and answer.window.tokens for answer in answers] == [2, 2]
    assert (totals.window_wall_s, totals.window_phases) == (None, None)
    assert totals.occupancy == pytest.approx(4.0 / (4 * 4.0))
    assert answers[1].ttft_s == 1.0


def test_another_prompt_than_the_sent_one_is_an_error() -> None:
    answers, totals = taken(
        [(exchange("a", 0, 0, 1.0), Reply(output_tokens=5, prompt_tokens=4))], 0, Load(1)
    )
    assert "the server read 4 tokens where the prompt has 3" in (answers[0].error or "")
    assert (answers[0].window, answers[0].output_ids, answers[0].prompt_tokens_told) == (
        None,
        None,
        4,
    )
    assert totals.window_phases is None
    assert totals.window_wall_s == 1.0


def test_an_answer_of_unknown_length_is_an_error() -> None:
    answers, _ = taken([(exchange("a", 0, 0, 1.0), Reply(text="words"))], 0, Load(1))
    assert answers[0].error == (
        "the server does not say how many tokens it generated (no `usage`, no ids)"
    )


def test_an_answer_survives_its_way_through_json() -> None:
    answers, _ = taken([(exchange("a", 0, 0, 2.0), reply([1.0, 2.0]))], 0, Load(1))
    assert Answer(**json.loads(answers[0].model_dump_json())) == answers[0]
