"""Numbers keep three digits, intervals the decimals of their value, and null is a dash."""

import pytest

from dflash_bench.report.row import Estimate
from dflash_bench.report.words import (
    NOT_MEASURED,
    bounds,
    digits,
    interval,
    milliseconds,
    percent,
    ratio,
    symbol,
    whole,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1.00"),
        (9.876, "9.88"),
        (98.76, "98.8"),
        (1234.5, "1,234"),
        (0.0123, "0.0123"),
    ],
)
def test_three_digits_count_and_no_exponent_appears(value: float, text: str) -> None:
    assert digits(value) == text


def test_a_tiny_value_stops_at_six_decimals() -> None:
    assert digits(1.5e-9) == "0.000000"


@pytest.mark.parametrize(
    ("value", "text"), [(3.944, "3.94x"), (12.345, "12.35x"), (0.98, "0.98x"), (0.0123, "0.012x")]
)
def test_a_ratio_has_two_decimals_unless_these_would_show_nothing(value: float, text: str) -> None:
    assert ratio(value) == text


def test_an_interval_stands_behind_its_value() -> None:
    assert interval(Estimate(3.944, 3.71, 4.1249), "x") == "3.94x (3.71-4.12)"


def test_a_value_without_interval_stands_alone() -> None:
    assert interval(Estimate(3.944), "x") == "3.94x"
    assert bounds(Estimate(3.944, 3.7, None)) == ""


def test_nothing_measured_is_a_dash_not_a_zero() -> None:
    shown = [
        digits(None),
        ratio(None),
        interval(None),
        milliseconds(None),
        percent(None),
        whole(None),
    ]
    assert shown == [NOT_MEASURED] * 6


def test_seconds_are_shown_as_milliseconds() -> None:
    assert milliseconds(0.00214) == "2.14"


def test_shares_are_shown_in_percent() -> None:
    assert percent(0.974) == "97 %"


def test_each_verdict_has_a_shape_of_its_own() -> None:
    verdicts = ["HELPS", "HURTS", "NEUTRAL", "MIXED", "UNPROVEN", "something else"]
    assert len({symbol(verdict) for verdict in verdicts}) == len(verdicts)
