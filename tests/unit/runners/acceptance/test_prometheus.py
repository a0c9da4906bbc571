"""Snapshots of counters, and what happened between two."""

from dflash_bench.runners.acceptance.prometheus import Counters, Delta, read

BEFORE = """\
# TYPE app:tokens_total counter
app:tokens_total{engine="0"} 10
app:tokens_total{engine="1"} 5
# TYPE app:tokens_created gauge
app:tokens_created{engine="0"} 1.7e+09
app:tokens_created{engine="1"} 1.7e+09
# TYPE app:accepted_total counter
app:accepted_total{engine="0",position="0"} 3
app:accepted_total{engine="0",position="10"} 1
# TYPE app:wait_seconds histogram
app:wait_seconds_bucket{le="+Inf"} 2
app:wait_seconds_count 2
app:wait_seconds_sum 0.25
# TYPE app:busy gauge
app:busy 4
# TYPE app:config_info gauge
app:config_info{block_size="16"} 1
"""
AFTER = (
    BEFORE.replace('engine="1"} 5', 'engine="1"} 25')
    .replace('position="0"} 3', 'position="0"} 9')
    .replace("_sum 0.25", "_sum 1.5")
    .replace("busy 4", "busy 1")
)


def snapshot(text: str) -> Counters:
    counters = read(text)
    assert counters is not None
    return counters


def test_engines_are_summed_and_created_is_not_a_count() -> None:
    counters = snapshot(BEFORE)
    assert counters.total("app:tokens_total") == 15
    assert counters.total("app:tokens") is None
    assert counters.labels("app:config_info") == {"block_size": "16"}


def test_what_was_gained_is_the_difference() -> None:
    delta = Delta(snapshot(BEFORE), snapshot(AFTER))
    assert delta.count("app:tokens_total") == 20
    assert delta.seconds("app:wait_seconds_sum") == 1.25
    assert delta.count("app:nothing_total") is None
    assert delta.restarts() == []


def test_positions_come_in_the_order_of_their_numbers_with_zeros_between() -> None:
    delta = Delta(snapshot(BEFORE), snapshot(AFTER))
    assert delta.by_position("app:accepted_total") == (6, *[0] * 10)
    assert delta.by_position("app:tokens_total") is None


def test_a_counter_that_did_not_exist_before_started_from_nothing() -> None:
    empty = snapshot("# TYPE app:busy gauge\napp:busy 1\n")
    assert Delta(empty, snapshot(BEFORE)).count("app:tokens_total") == 15


def test_a_restart_is_seen_by_a_count_that_fell_or_was_made_anew() -> None:
    (fell,) = Delta(snapshot(AFTER), snapshot(BEFORE)).restarts()
    assert "app:tokens_total went from 25 to 5" in fell
    renewed = AFTER.replace("1.7e+09", "1.8e+09")
    (anew,) = Delta(snapshot(BEFORE), snapshot(renewed)).restarts()
    assert "app:tokens_created" in anew


def test_a_series_that_is_gone_was_lost_with_its_server() -> None:
    lines = [line for line in BEFORE.splitlines() if 'engine="1"' not in line]
    (gone,) = Delta(snapshot(BEFORE), snapshot("\n".join(lines))).restarts()
    assert "app:tokens_total went from 5 to nothing" in gone
    untyped = snapshot("# TYPE app:other gauge\napp:other 1\n")
    assert Delta(snapshot(BEFORE), untyped).restarts()


def test_a_gauge_may_fall() -> None:
    quiet = BEFORE.replace("busy 4", "busy 0")
    assert Delta(snapshot(BEFORE), snapshot(quiet)).restarts() == []


def test_what_is_no_exposition_is_no_snapshot() -> None:
    assert read("") is None
    assert read('{"detail": "Not Found"}') is None
    assert read("<html>404</html>") is None
