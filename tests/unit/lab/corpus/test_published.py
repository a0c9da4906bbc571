"""The published families: GSM8K's training split and the interpreter's own library."""

import ast
import json
from pathlib import Path

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.lab.corpus import gsm8k, stdlib
from dflash_bench.lab.corpus.row import is_held_out
from dflash_bench.workloads.workload import load_workload


def test_calculator_marks_are_taken_out() -> None:
    row = gsm8k.to_row("How many?", "She has 48/2 = <<48/2=24>>24 clips.\n#### 24")
    assert row.answer == "She has 48/2 = 24 clips.\n#### 24"


def write_pairs(folder: Path) -> None:
    lines = [json.dumps({"question": f"What is {i}?", "answer": f"#### {i}"}) for i in range(200)]
    (folder / "gsm8k_train.jsonl").write_text("\n".join(lines))


def test_the_file_in_the_data_folder_is_split_by_prompt(tmp_path: Path) -> None:
    write_pairs(tmp_path)
    held_out, trained = gsm8k.load(tmp_path, held_out=True), gsm8k.load(tmp_path, held_out=False)
    assert len(held_out) + len(trained) == 200
    assert all(is_held_out(row.prompt) for row in held_out)
    assert not any(is_held_out(row.prompt) for row in trained)


def test_the_data_folder_may_be_named_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pairs(tmp_path)
    monkeypatch.setenv("DFLASH_BENCH_DATA", str(tmp_path))
    assert gsm8k.load(held_out=False) == gsm8k.load(tmp_path, held_out=False)


def test_what_is_taught_is_asked_by_the_workload() -> None:
    assert load_workload("gsm8k").template == gsm8k.PROMPT


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("garbage", r"gsm8k_train\.jsonl, line 2: is not JSON"),
        ('{"question": "Why?"}', r"gsm8k_train\.jsonl, line 2: has no 'answer'"),
        ('{"question": null, "answer": "1"}', r"gsm8k_train\.jsonl, line 2: 'question' is neither"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    good = '{"question": "Why?", "answer": "#### 1"}'
    (tmp_path / "gsm8k_train.jsonl").write_text(f"{good}\n{line}\n")
    with pytest.raises(ConfigError, match=message):
        gsm8k.load(tmp_path, held_out=False)


def test_the_real_file_has_7473_rows(authors_data: Path) -> None:
    if not (authors_data / "gsm8k_train.jsonl").is_file():
        pytest.skip("gsm8k_train.jsonl is not beside gsm8k_test.jsonl")
    assert sum(len(gsm8k.load(authors_data, held_out=side)) for side in (True, False)) == 7473


def test_a_function_is_cut_after_its_docstring() -> None:
    source = 'class A:\n    def f(self):\n        """Say.\n\n        More.\n        """\n        return 1\n'
    head, code = next(stdlib.functions(source))
    assert head == 'def f(self):\n    """Say.\n\n    More.\n    """'
    assert code == head + "\n    return 1"


def test_functions_without_docstring_or_body_are_left_out() -> None:
    assert not list(stdlib.functions('def f():\n    return 1\n\ndef g():\n    """Only this."""\n'))


def test_every_row_of_the_library_has_the_form_of_humaneval() -> None:
    json_package = Path(json.__file__).parent
    rows = [row for side in (True, False) for row in stdlib.load(json_package, held_out=side)]
    assert len(rows) > 5
    for row in rows:
        head = row.prompt.split("```python\n")[1].removesuffix("\n```")
        code = row.answer.removeprefix("```python\n").removesuffix("\n```")
        assert code.startswith(head + "\n")
        assert len(code) <= stdlib.MAX_CHARS
        assert isinstance(ast.parse(code).body[0], ast.FunctionDef)


def test_tests_and_installed_packages_are_no_part_of_the_library(tmp_path: Path) -> None:
    for name in ("a.py", "test/b.py", "site-packages/c.py", "sub/d.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [p.name for p in stdlib.source_files(tmp_path)] == ["a.py", "d.py"]
