"""The report says where loops flatter the result."""

from typing import Any

import pytest

from tests.unit.report.results import make_result


def with_repetition(repeating: int, **changes: Any) -> Any:
    result = make_result()
    for entry in result.cells:
        entry["repetition"] = {
            "prompts": 20,
            "repeating": repeating,
            "acceptance_length_others": 2.5,
            "speedup_others": None if entry["arm"] == "ar" else 1.5,
        } | changes
    return result.report


def test_a_tenth_of_looping_texts_is_noted_with_the_figures_of_the_others() -> None:
    notes = with_repetition(2).repetition_notes
    assert len(notes) == 2, "one note per workload"
    assert "2 of 20 texts repeat a run of 20 tokens" in notes[0]
    assert "tau 2.50 and 1.50x" in notes[0]


@pytest.mark.parametrize("repeating", [0, 1])
def test_fewer_are_not_noted(repeating: int) -> None:
    assert with_repetition(repeating).repetition_notes == ()


def test_results_of_an_older_version_have_no_note() -> None:
    assert make_result().report.repetition_notes == ()


def test_where_all_texts_loop_it_is_said() -> None:
    assert "No text is without." in with_repetition(20, speedup_others=None).repetition_notes[0]
