"""Errors carry an exit code, a sentence and a remedy."""

from dflash_bench.errors import (
    BenchError,
    ConfigError,
    InfrastructureError,
    Interrupted,
    did_you_mean,
)


def test_each_error_ends_with_its_own_exit_code() -> None:
    codes = [kind.exit_code for kind in (BenchError, ConfigError, InfrastructureError, Interrupted)]
    assert codes == [1, 2, 6, 130]


def test_a_near_miss_is_suggested_and_all_names_are_listed() -> None:
    assert did_you_mean("dflsh", ["dflash", "ar"]) == "Did you mean 'dflash'? Known: ar, dflash."


def test_nothing_is_suggested_for_a_far_miss() -> None:
    assert did_you_mean("xyz", ["dflash", "ar"]) == "Known: ar, dflash."
