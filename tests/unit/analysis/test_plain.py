"""What is written is plain."""

from dflash_bench.analysis.plain import plain


def test_floats_are_rounded_to_six_significant_digits_at_any_depth() -> None:
    found = plain({"a": [1.23456789, {"b": 0.000123456789}], "c": (123456789.0,)})
    assert found == {"a": [1.23457, {"b": 0.000123457}], "c": [123457000.0]}


def test_nan_and_infinity_are_null() -> None:
    assert plain([float("nan"), float("inf"), -float("inf")]) == [None, None, None]


def test_everything_else_stays() -> None:
    assert plain({"n": 1234567, "t": True, "s": "x", "none": None}) == {
        "n": 1234567,
        "t": True,
        "s": "x",
        "none": None,
    }
