"""Items are the first rows in the authors' order, each with a name of its own."""

import json
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.workloads.load import load_items
from dflash_bench.workloads.workload import AnswerRule, Select, Source, Workload, load_workload


def workload(folder: Path, *rows: dict[str, Any], **fields: Any) -> Workload:
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    source = Source(path=str(path))
    return Workload(name="mine", title="Mine", version=1, licence="MIT", source=source, **fields)


def test_the_first_rows_are_taken_in_order(tmp_path: Path) -> None:
    found = load_items(workload(tmp_path, *({"text": str(n)} for n in range(9))), 3)
    assert [(item.id, item.text) for item in found] == [
        ("mine/0", "0"),
        ("mine/1", "1"),
        ("mine/2", "2"),
    ]


def test_fewer_rows_than_asked_are_all_of_them(tmp_path: Path) -> None:
    assert len(load_items(workload(tmp_path, {"text": "a"}), 50)) == 1


def test_a_templates_row_has_its_name_and_the_end_of_its_answer(tmp_path: Path) -> None:
    rule = AnswerRule(field="a", after="####")
    row = {"n": 7, "q": "2+2?", "a": "two #### and two\n#### 4 "}
    [item] = load_items(workload(tmp_path, row, template="Q: {q}", id="n", answer=rule), 1)
    assert (item.id, item.answer) == ("7", "4")
    assert item.messages == ({"role": "user", "content": "Q: 2+2?"},)


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"text": "a", "id": 1}, {"text": "b", "id": "1"}]
    with pytest.raises(ConfigError, match=r"mine\.jsonl, line 2: the id '1' stands twice"):
        load_items(workload(tmp_path, *rows), 2)


def test_a_selection_of_nothing_is_refused(tmp_path: Path) -> None:
    bare = workload(tmp_path, {"text": "a", "n": 1})
    nothing = bare.source.model_copy(update={"select": Select(field="n", first=5, last=6)})
    with pytest.raises(ConfigError, match="'mine' gives no rows"):
        load_items(bare.model_copy(update={"source": nothing}), 2)


@pytest.mark.parametrize("key", ["prompt", "id", "answer"])
def test_half_a_surrogate_pair_is_refused(tmp_path: Path, key: str) -> None:
    row = {"prompt": "a", "id": "b", "answer": "c", key: "d\ud83d"}
    with pytest.raises(ConfigError, match=f"line 1: '{key}' holds a character that is not Unicode"):
        load_items(workload(tmp_path, row), 1)


@pytest.mark.parametrize("key", ["q", "n", "a"])
def test_half_a_surrogate_pair_is_refused_in_a_templates_row(tmp_path: Path, key: str) -> None:
    row = {"q": "x", "n": "y", "a": "z", key: "d\ud83d"}
    fields: dict[str, Any] = {"template": "{q}", "id": "n", "answer": AnswerRule(field="a")}
    with pytest.raises(ConfigError, match=f"line 1: '{key}' holds a character that is not Unicode"):
        load_items(workload(tmp_path, row, **fields), 1)


def test_a_name_in_a_message_cannot_drive_the_terminal(tmp_path: Path) -> None:
    rows = [{"text": "a", "id": "\x1b[2J"}] * 2
    with pytest.raises(ConfigError) as caught:
        load_items(workload(tmp_path, *rows), 2)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("name", ["sample-math", "sample-code", "sample-chat"])
def test_samples_have_prompts_and_answers(name: str) -> None:
    found = load_items(load_workload(name), 1000)
    assert len(found) >= 48
    assert all(item.messages and item.answer for item in found)


@pytest.mark.parametrize(("name", "rows"), [("gsm8k", 1319), ("humaneval", 164)])
def test_the_authors_files_load_whole(name: str, rows: int, authors_data: Path) -> None:
    assert len(load_items(load_workload(name), 10_000, str(authors_data))) == rows


def test_gsm8k_is_asked_as_the_lab_was_taught(authors_data: Path) -> None:
    [item] = load_items(load_workload("gsm8k"), 1, str(authors_data))
    assert item.messages is not None
    question = item.messages[0]["content"]
    assert question.startswith("Janet\u2019s ducks lay 16 eggs per day.")
    assert question.endswith('?\nThink step by step and end with "#### " and the number.')
    assert item.answer == "18"


def test_humanevals_code_is_fenced_on_lines_of_its_own(authors_data: Path) -> None:
    for item in load_items(load_workload("humaneval"), 164, str(authors_data)):
        assert item.messages is not None
        lines = item.messages[0]["content"].split("\n")
        assert (lines[1], lines[-1], lines.count("```")) == ("```python", "```", 1)
