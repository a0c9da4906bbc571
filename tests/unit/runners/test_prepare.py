"""What a backend wants in a form of its own is made once, whole or not at all, and never for another model."""

import sys
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.errors import InfrastructureError
from dflash_bench.runners import environments
from dflash_bench.runners.launch import Value
from dflash_bench.runners.prepare import cache_folder, prepare
from dflash_bench.runners.recipe import Recipe
from tests.unit.runners.recipes import SMALL, small

# Writes {output}, and one more letter into the file `runs` of the folder that is named last.
COUNTS = """
import sys
open(sys.argv[1], "w").write(sys.argv[2])
open(sys.argv[3] + "/runs", "a").write("x")
"""


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DFLASH_BENCH_HOME", str(tmp_path / "home"))


def model(folder: Path, weights: str = "w") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "model.safetensors").write_text(weights)
    return folder


def step(makes: str, source: str, counts: Path, code: str = COUNTS) -> dict[str, Any]:
    command = [sys.executable, "-c", code, "{output}", source, str(counts)]
    return {"makes": "{cache}/" + makes, "command": command}


def recipe(folder: Path, *steps: dict[str, Any]) -> Recipe:
    return small(folder, install=None, start={**SMALL["start"], "prepare": steps, "variants": {}})


def values(made: Recipe, target: Path, draft: Path | None = None) -> dict[str, Value]:
    cache = cache_folder(made, target, draft)
    return {"cache": cache, "target": target, "draft": draft}


def test_a_file_is_made_once(tmp_path: Path) -> None:
    target = model(tmp_path / "t")
    made = recipe(tmp_path, step("t.gguf", "{target}", tmp_path))
    given = values(made, target)
    for _ in range(2):
        (path,) = prepare(made, given, tmp_path / "log")
    assert path.read_text() == str(target)
    assert (tmp_path / "runs").read_text() == "x"
    assert list(path.parent.iterdir()) == [path]
    assert list(path.resolve().parent.iterdir()) == [path.resolve()]


def test_a_step_whose_model_the_arm_has_not_is_left_out(tmp_path: Path) -> None:
    target = model(tmp_path / "t")
    made = recipe(
        tmp_path, step("t.gguf", "{target}", tmp_path), step("d.gguf", "{draft}", tmp_path)
    )
    plain = prepare(made, values(made, target), tmp_path / "log")
    assert [path.name for path in plain] == ["t.gguf"]
    drafting = prepare(made, values(made, target, model(tmp_path / "d")), tmp_path / "log")
    assert [path.name for path in drafting] == ["t.gguf", "d.gguf"]
    assert drafting[0].parent != plain[0].parent
    assert drafting[0].resolve() == plain[0].resolve()
    assert (tmp_path / "runs").read_text() == "xx"


def test_a_changed_converter_makes_the_file_again(tmp_path: Path) -> None:
    script, target = tmp_path / "convert.py", model(tmp_path / "t")
    texts = []
    for version in ("1", "2"):
        script.write_text(f"import sys; open(sys.argv[1], 'w').write('{version}')")
        made = recipe(
            tmp_path, {"makes": "{cache}/t", "command": [sys.executable, str(script), "{output}"]}
        )
        (path,) = prepare(made, values(made, target), tmp_path / "log")
        texts.append(path.read_text())
    assert texts == ["1", "2"]


def test_another_model_or_another_command_has_another_folder(tmp_path: Path) -> None:
    target = model(tmp_path / "t")
    made = recipe(tmp_path, step("t.gguf", "{target}", tmp_path))
    before = cache_folder(made, target, None)
    assert cache_folder(made, model(tmp_path / "copy"), None) == before
    assert cache_folder(made, model(tmp_path / "other", "v"), None) != before
    assert cache_folder(made, target, target) != before
    assert cache_folder(recipe(tmp_path, step("u", "{target}", tmp_path)), target, None) != before


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; open(sys.argv[1], 'w').write('half'); sys.exit('bad tensor')", "exit code 1"),
        ("print('nothing to do')", r"wrote no \{output\}"),
    ],
)
def test_a_file_is_whole_or_not_there(tmp_path: Path, code: str, said: str) -> None:
    made = recipe(tmp_path, step("t.gguf", "{target}", tmp_path, code))
    given = values(made, model(tmp_path / "t"))
    with pytest.raises(InfrastructureError, match=said) as caught:
        prepare(made, given, tmp_path / "log")
    assert ("bad tensor" in caught.value.message) or ("nothing to do" in caught.value.message)
    assert str(tmp_path / "log") in caught.value.remedy
    assert not [path for path in (tmp_path / "home").rglob("*") if path.is_file()]


def test_what_makes_a_file_gets_the_variables_of_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import os, sys; open(sys.argv[1], 'w').write(os.environ['A'] + os.environ['B'])"
    steps = [{"makes": "{cache}/t", "command": [sys.executable, "-c", code, "{output}"]}]
    extra = {"cpu": {"env": {"B": "{threads}"}}}
    start = {**SMALL["start"], "prepare": steps, "env": {"A": "{seed}"}, "variants": extra}
    made = small(tmp_path, install=None, start=start)
    monkeypatch.setattr(environments, "variant_of", lambda recipe: "cpu")
    monkeypatch.setattr("dflash_bench.runners.prepare._installed", lambda recipe: None)
    given = {**values(made, model(tmp_path / "t")), "threads": 2, "seed": 7}
    (path,) = prepare(made, given, tmp_path / "log")
    assert path.read_text() == "72"


def test_a_converter_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    made = recipe(tmp_path, {"makes": "{cache}/t", "command": ["/no/converter", "{output}"]})
    with pytest.raises(InfrastructureError, match="/no/converter cannot be run"):
        prepare(made, values(made, model(tmp_path / "t")), tmp_path / "log")
