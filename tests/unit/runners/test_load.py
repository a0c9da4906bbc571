"""The load client against a real server: what is sent when, what is stamped, and what a failure is."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_bench.runners.base import Load
from dflash_bench.runners.client import sse
from dflash_bench.runners.client.arrivals import due_times
from dflash_bench.runners.client.load import Address, Exchange, Traffic, Wire
from tests.fakes.served import Served


@pytest.fixture
def served() -> Served:
    return Served(step_s=0.001)


def wires(count: int) -> list[Wire]:
    return [
        Wire(f"r{i}", "/v1/completions", {"prompt": [i + 1, 5, 7], "max_tokens": 12})
        for i in range(count)
    ]


def sent(url: str, count: int, load: Load, silence_s: float = 60) -> tuple[list[Exchange], Traffic]:
    traffic = Traffic(Address(url, silence_s=silence_s), wires(count), load)
    return list(traffic), traffic


def test_a_closed_loop_keeps_its_slots_busy_and_refills_them_at_once(
    served: Served, url: str
) -> None:
    exchanges, traffic = sent(url, 12, Load(batch_size=3))
    assert served.most_in_flight == 3
    assert [each.error for each in exchanges] == [None] * 12
    # Every request but the first three begins, to the clock tick, where another one ended.
    starts = sorted(each.slot_s for each in exchanges)
    ends = sorted(each.ended_s for each in exchanges)
    assert starts[:3] == [starts[0]] * 3
    assert starts[3:] == ends[:9]
    assert traffic.full_s == sorted(each.sent_s for each in exchanges)[2]


def test_exchanges_come_in_the_order_of_their_ends(url: str) -> None:
    exchanges, _ = sent(url, 12, Load(batch_size=4))
    assert all(a.ended_s <= b.ended_s for a, b in pairwise(exchanges))


def test_every_event_is_stamped_between_sending_and_end_and_none_is_lost(url: str) -> None:
    exchanges, _ = sent(url, 3, Load(batch_size=1))
    for each in exchanges:
        times = [each.sent_s, *(at_s for at_s, _ in each.events), each.ended_s]
        assert times == sorted(times)
        assert len(each.events) == 12 + 2  # one per token, the usage, [DONE]
        assert each.events[-1][1] == b"[DONE]"
        assert len({at_s for at_s, _ in each.events}) > 6  # one by one, not in a lump


def test_one_connection_a_slot_is_opened_before_the_clock_starts(served: Served, url: str) -> None:
    warm = set[int]()
    for _ in Traffic(Address(url), wires(12), Load(batch_size=4)):
        warm = warm or set(served.connections)
    assert len(served.connections) == 4 == len(warm)


def test_fewer_requests_than_slots_fill_what_they_can(served: Served, url: str) -> None:
    exchanges, traffic = sent(url, 2, Load(batch_size=8))
    assert served.most_in_flight == 2
    assert traffic.full_s == max(each.sent_s for each in exchanges)


def test_no_requests_are_no_traffic(url: str) -> None:
    assert sent(url, 0, Load(batch_size=2))[0] == []


def test_an_open_loop_sends_when_due_and_never_more_than_its_slots(
    served: Served, url: str
) -> None:
    load = Load(batch_size=2, request_rate=500.0, seed=3)
    first, _ = sent(url, 12, load)
    again, _ = sent(url, 12, load)
    assert served.most_in_flight <= 2
    assert all(each.sent_s >= each.slot_s for each in first)

    def gaps(exchanges: list[Exchange]) -> list[float]:
        due = sorted(each.slot_s for each in exchanges)
        return [later - due[0] for later in due]

    assert gaps(first) == pytest.approx(gaps(again), abs=1e-6)


def test_an_open_loop_hands_out_answers_before_all_are_sent(served: Served, url: str) -> None:
    load = Load(batch_size=2, request_rate=0.01, seed=3)
    assert due_times(2, 0.01, 1.0, seed=3)[1] > 30
    exchanges = iter(Traffic(Address(url), wires(2), load))
    assert next(exchanges).id == "r0"
    assert len(served.seen) == 1
    exchanges.close()  # type: ignore[attr-defined]


def test_a_request_may_take_long_while_something_comes(served: Served, url: str) -> None:
    served.step_s = 0.1
    (exchange,), _ = sent(url, 1, Load(batch_size=1), silence_s=0.9)
    assert exchange.error is None
    assert exchange.ended_s - exchange.sent_s > 0.9
    assert not exchange.is_silent


def test_a_failed_request_is_an_exchange_with_a_sentence_and_the_others_go_on(
    served: Served, url: str
) -> None:
    served.faults = {1: "500", 2: "cut", 3: "hang"}
    exchanges, _ = sent(url, 6, Load(batch_size=1), silence_s=0.5)
    errors = {each.id: each.error for each in exchanges}
    assert [errors[name] for name in ("r0", "r4", "r5")] == [None] * 3
    assert errors["r1"] == ('the server answered HTTP 500: {"error": {"message": "out of luck"}}')
    assert "the connection failed after" in (errors["r2"] or "")
    assert [each.id for each in exchanges if each.is_silent] == ["r3"]
    assert errors["r3"] == "nothing came for 0.5 s, after 0 bytes"


def test_a_server_that_is_not_there_fails_each_request() -> None:
    exchanges, _ = sent("http://127.0.0.1:9", 2, Load(batch_size=2))
    assert all("the connection failed" in (each.error or "") for each in exchanges)
    assert [each.status for each in exchanges] == [None, None]


def test_leaving_early_cancels_what_is_in_flight(served: Served, url: str) -> None:
    served.faults = dict.fromkeys(range(1, 8), "hang")
    traffic = iter(Traffic(Address(url), wires(8), Load(batch_size=4)))
    next(traffic)
    with pytest.raises(KeyboardInterrupt):
        traffic.throw(KeyboardInterrupt)  # type: ignore[attr-defined]
    deadline = time.monotonic() + 20
    while served.in_flight and time.monotonic() < deadline:
        time.sleep(0.01)
    assert served.in_flight == 0
    assert len(served.seen) < 8


def test_a_proxy_of_the_environment_is_not_asked_about_this_machine(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert [each.error for each in sent(url, 2, Load(batch_size=1))[0]] == [None, None]


def test_the_client_tells_how_late_it_was(url: str) -> None:
    _, traffic = sent(url, 20, Load(batch_size=2))
    client = traffic.client
    assert client is not None
    assert 0 <= client.lag_p50_s <= client.lag_p99_s <= client.lag_max_s
    assert client.cpu_share > 0


def test_arrivals_are_those_of_their_seed_with_the_asked_mean_and_spread() -> None:
    def spread(times: list[float]) -> tuple[float, float]:
        gaps = [later - before for before, later in pairwise(times)]
        mean = sum(gaps) / len(gaps)
        return mean, sum((gap - mean) ** 2 for gap in gaps) / len(gaps) / mean**2

    assert due_times(5, 2.0, 1.0, seed=1) == due_times(5, 2.0, 1.0, seed=1)
    assert due_times(5, 2.0, 1.0, seed=1) != due_times(5, 2.0, 1.0, seed=2)
    assert due_times(3, 2.0, 1.0, seed=1) == due_times(5, 2.0, 1.0, seed=1)[:3]
    assert (due_times(0, 2.0, 1.0, seed=1), due_times(1, 2.0, 1.0, seed=1)) == ([], [0.0])
    for burstiness in (0.5, 1.0, 4.0):
        mean, variance = spread(due_times(20_000, 8.0, burstiness, seed=0))
        assert mean == pytest.approx(1 / 8, rel=0.05)
        # The squared coefficient of variation of a gamma law is 1 / shape.
        assert variance == pytest.approx(1 / burstiness, rel=0.1)


@given(
    payloads=st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1), max_size=5
    ),
    ends=st.sampled_from(["\n", "\r\n"]),
    cuts=st.lists(st.integers(0, 200)),
)
def test_events_are_the_same_however_the_bytes_were_cut(
    payloads: list[str], ends: str, cuts: list[int]
) -> None:
    text = "".join(f": ping{ends}data: {payload}{ends}{ends}" for payload in payloads)
    raw = (text + "data: never ended").encode()
    places = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    pieces = [(float(end), raw[begin:end]) for begin, end in pairwise(places)]
    found = list(sse.events(pieces))
    assert [data.decode() for _, data in found] == payloads
    # Each is stamped with the piece, here by its last byte, that completed it.
    at = 0
    for (at_s, _), payload in zip(found, payloads, strict=True):
        at += len(f": ping{ends}data: {payload}{ends}{ends}".encode())
        assert at_s == min(place for place in places if place >= at)


def test_a_body_that_is_no_stream_is_one_event() -> None:
    assert list(sse.whole([(1.0, b'{"a"'), (2.0, b": 1}")])) == [(2.0, b'{"a": 1}')]
    assert list(sse.whole([])) == []
