"""A stop string ends an answer at the token that completes it."""

from dflash_bench.runners.stop import stop_finder
from tests.fakes.scripted import Bytes


def ids(text: str) -> list[int]:
    return list(text.encode())


def test_without_stop_strings_nothing_is_looked_for() -> None:
    assert stop_finder(Bytes(), ()) is None


def test_the_answer_ends_with_the_token_that_completes_the_stop() -> None:
    find = stop_finder(Bytes(), ("END", "\n\n"))
    assert find is not None
    assert find(ids("abcEN")) is None
    assert find(ids("abcENDxyz")) == len("abcEND")
    assert find(ids("a\n\nbEND")) == len("a\n\n")
