"""A nested mapping of any shape becomes labelled text."""

from dflash_bench.report.facts import Fact, flatten


def test_a_leaf_is_labelled_by_its_path() -> None:
    found = flatten({"target": {"id": "lab", "sha256": {"model_a": "ff"}}})
    assert found == (Fact("target id", "lab"), Fact("target sha256 model a", "ff"))


def test_units_move_from_the_name_to_the_value() -> None:
    found = flatten({"memory_bytes": 8 * 2**30, "peak_bytes": 3 * 2**20, "wait_s": 0.25})
    assert found == (Fact("memory", "8.00 GiB"), Fact("peak", "3.00 MiB"), Fact("wait", "0.25 s"))


def test_lists_booleans_and_nulls_are_words() -> None:
    found = flatten({"load": (1.25, 0.5), "dirty": True, "clean": False, "vllm": None})
    assert [fact.value for fact in found] == ["1.25, 0.5", "yes", "no", "—"]


def test_nothing_gives_nothing() -> None:
    assert flatten(None) == ()
    assert flatten({}) == ()
