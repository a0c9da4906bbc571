"""Lines become tables: what counts, and what does not."""

import pytest

from dflash_bench.analysis.frames import read_tables
from dflash_bench.errors import InfrastructureError
from tests.unit.analysis.recording import CELL, answer, failure, recording, steps, visit

ONE = [answer("p0", steps(1, 2))]


def test_a_visit_without_an_end_does_not_count() -> None:
    tables = read_tables(recording(visit("ar", 1, ONE), visit("ar", 2, ONE, ended=False)))
    assert tables.visits["round"].tolist() == [1]
    assert tables.requests["round"].tolist() == [1]


def test_of_several_attempts_only_the_finished_one_counts() -> None:
    broken = visit("ar", 1, [answer("p0", steps(0)), answer("p1", steps(0))], ended=False)
    tables = read_tables(recording(broken, visit("ar", 1, ONE, attempt=2)))
    assert tables.requests["attempt"].tolist() == [2]
    assert tables.samples()[CELL, "ar"].steps.accepted.tolist() == [1, 2]


def test_discarded_rounds_and_controls_stay_out_of_the_estimate() -> None:
    lines = recording(
        visit("ar", 0, ONE, role="control_first"),
        visit("ar", 0, ONE, role="discard"),
        visit("ar", 1, ONE),
        visit("ar", 0, ONE, role="control_last"),
    )
    tables = read_tables(lines)
    assert tables.samples()[CELL, "ar"].visits["role"].tolist() == ["measure"]
    assert len(tables.samples("control_first")[CELL, "ar"].requests) == 1


def test_a_failed_request_is_kept_apart_and_has_no_steps() -> None:
    sample = read_tables(visit("ar", 1, [*ONE, failure("p1")])).samples()[CELL, "ar"]
    assert sample.answered["request"].tolist() == ["p0"]
    assert sample.steps.known.tolist() == [True, False]
    assert sample.steps.lengths.tolist() == [2, 0]


def test_steps_belong_to_their_request_whatever_order_visits_came_in() -> None:
    lines = recording(
        visit("dflash-b4", 1, [answer("p0", steps(3, 1)), answer("p1", steps(2))]),
        visit("ar", 1, [answer("p0", steps(0, 0, drafted=0))]),
        visit("dflash-b4", 2, [answer("p1", steps(1)), answer("p0", steps(0, 3))]),
    )
    sample = read_tables(lines).samples()[CELL, "dflash-b4"]
    assert sample.requests["request"].tolist() == ["p0", "p1", "p1", "p0"]
    assert sample.steps.per_request(sample.steps.accepted).tolist() == [4, 2, 1, 3]
    assert sample.rounds == 2


def test_no_lines_give_empty_tables() -> None:
    tables = read_tables([])
    assert tables.samples() == {}
    assert len(tables.requests) == 0


def test_a_line_that_lacks_its_key_is_named() -> None:
    lines = visit("ar", 1, ONE)
    del lines[1]["attempt"]
    with pytest.raises(InfrastructureError, match=r"line 2: is not a whole record \(KeyError"):
        read_tables(lines)


def test_steps_of_unequal_length_are_refused() -> None:
    lines = visit("ar", 1, ONE)
    lines[1]["steps"]["cut"] = [0]
    with pytest.raises(InfrastructureError, match=r"steps.cut and steps.accepted differ in length"):
        read_tables(lines)


def test_a_request_that_stands_twice_in_a_visit_is_refused() -> None:
    with pytest.raises(InfrastructureError, match="request p0 stands twice in visit"):
        read_tables(visit("ar", 1, [*ONE, *ONE]))
