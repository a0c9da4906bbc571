"""A bare name is ours, a path is yours."""

import pytest

from dflash_bench.assets import folder, is_path, names


@pytest.mark.parametrize("kind", ["runners", "workloads", "reports"])
def test_the_declarative_folders_are_found(kind: str) -> None:
    assert folder(kind).is_dir()


def test_a_kind_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="broken installation"):
        folder("nonsense")


def test_our_names_are_the_stems_of_our_files() -> None:
    assert "reference" in names("runners")
    assert {"gsm8k", "humaneval", "sample-math"} <= set(names("workloads"))


@pytest.mark.parametrize(
    "path", ["./a", "a/b", "mine.yaml", "mine.jsonl", "mine.jsonl.gz", "a.json"]
)
def test_what_looks_like_a_file_is_a_path(path: str) -> None:
    assert is_path(path)


@pytest.mark.parametrize("name", ["gsm8k", "mt-bench", "sample-math"])
def test_a_bare_word_is_a_name(name: str) -> None:
    assert not is_path(name)
