"""The promises about shape that drift unless a test holds them."""

import ast
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "dflash_bench").rglob("*.py"))
CORE = ("loop", "verify", "sampling", "cache", "target", "clock")


def code_lines(path: Path) -> int:
    """Count the lines of `path` that hold code: no blanks, comments or docstrings."""
    source = path.read_text(encoding="utf-8")
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, documented) and ast.get_docstring(node) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    return sum(
        1
        for number, line in enumerate(source.splitlines(), start=1)
        if line.strip() and not line.strip().startswith("#") and number not in docstrings
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_has_at_most_300_lines_and_opens_with_its_idea(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 300
    assert ast.get_docstring(ast.parse(source)), "a file opens with one paragraph: its idea"


def test_the_median_file_is_read_in_a_minute() -> None:
    assert median(len(path.read_text(encoding="utf-8").splitlines()) for path in FILES) <= 90


def test_the_engines_core_is_read_in_one_sitting() -> None:
    engine = ROOT / "dflash_bench" / "engine"
    assert sum(code_lines(engine / f"{name}.py") for name in CORE) <= 500
    for path in (engine / "methods").glob("*.py"):
        assert code_lines(path) <= 200, path.name


@pytest.mark.parametrize("banned", ["utils", "helpers", "manager", "common", "misc"])
def test_no_file_is_named_after_nothing(banned: str) -> None:
    assert not [path for path in FILES if banned in path.stem]
