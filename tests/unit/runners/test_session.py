"""A visit on a server: real HTTP, exact counters, a fake model behind them."""

import re
from pathlib import Path

import pytest

from dflash_bench.errors import InfrastructureError
from dflash_bench.plan import PlannedArm
from dflash_bench.runners.base import Load, Opening
from tests.fakes.served import Served
from tests.fakes.serving import AR, DFLASH, asked, requests, runner, somebody_asks


def test_counters_answers_and_steps_tell_one_acceptance(
    tmp_path: Path, served: Served, url: str
) -> None:
    answers, totals = asked(runner(tmp_path, url).open(DFLASH, Opening()))
    counted = totals.acceptance
    assert counted is not None
    assert counted.steps is not None
    told = [answer.acceptance for answer in answers if answer.acceptance is not None]
    assert counted.steps == sum(each.steps or 0 for each in told) == totals.row_steps
    assert counted.accepted == sum(each.accepted or 0 for each in told)
    for answer in answers:
        assert answer.steps is not None
        assert (
            answer.output_tokens == len(answer.output_ids or ()) == 1 + sum(answer.steps.committed)
        )
    assert sum(answer.output_tokens or 0 for answer in answers) - 6 == (
        counted.steps + (counted.accepted or 0) - (counted.overshoot or 0)
    )
    assert (totals.block_size, totals.backend["num_speculative_tokens"]) == (4, 3)
    assert "invalid" not in totals.backend
    assert served.counts["flushes"] == 0, "it is not ours"


def test_plain_decoding_has_a_step_per_token_and_no_acceptance(
    tmp_path: Path, served: Served, url: str
) -> None:
    served.num_draft_tokens = 0
    answers, totals = asked(runner(tmp_path, url).open(AR, Opening()))
    assert totals.acceptance is None
    assert totals.block_size is None
    for answer in answers:
        assert answer.acceptance is None
        assert answer.steps is not None
        assert set(answer.steps.committed) == {1}
        assert len(answer.steps.committed) == (answer.output_tokens or 0) - 1


def test_an_arm_drafts_what_plain_decoding_says(tmp_path: Path, served: Served, url: str) -> None:
    made = runner(tmp_path, url)
    drafted, _ = asked(made.open(DFLASH, Opening()), Load(3))
    served.num_draft_tokens = 0
    plain, _ = asked(made.open(AR, Opening()), Load(1))
    texts = {answer.request: answer.output_ids for answer in plain}
    assert {answer.request: answer.output_ids for answer in drafted} == texts
    assert {answer.finish_reason for answer in plain} == {"eos", "length"}


def test_shares_of_a_visit_sum_to_its_window(tmp_path: Path, url: str) -> None:
    answers, totals = asked(runner(tmp_path, url).open(DFLASH, Opening()), Load(3), count=9)
    shares = [answer.window for answer in answers if answer.window is not None]
    summed = sum((share.prefill_s or 0) + (share.decode_s or 0) for share in shares)
    assert summed == pytest.approx(totals.window_wall_s, rel=1e-6)
    assert totals.client is None or totals.client.cpu_share > 0


def test_all_sampling_goes_out_and_the_recipe_has_the_last_word(
    tmp_path: Path, served: Served, url: str
) -> None:
    made = runner(tmp_path, url, ask={"dialect": "vllm", "body": {"priority": 3, "top_k": 5}})
    asked(made.open(DFLASH, Opening()), Load(1, temperature=0.5))
    body = served.seen[0]
    assert body["prompt"] == [1, 7, 9]
    assert (body["max_tokens"], body["temperature"], body["stream"]) == (24, 0.5, True)
    assert (body["priority"], body["top_k"]) == (3, 5)
    assert served.seen[0]["seed"] != served.seen[1]["seed"]


def test_other_traffic_in_the_counters_is_complained_of(
    tmp_path: Path, served: Served, url: str
) -> None:
    session = runner(tmp_path, url).open(DFLASH, Opening())
    for number, _ in enumerate(session.run(requests(), Load(1))):
        if number == 2:
            somebody_asks(url)
    steps = 5  # 0, 1, 2, 3 and 0 accepted drafts and as many own tokens: 11 behind the prefill's
    assert session.totals().acceptance is not None
    complaints = session.totals().backend["complaints"]
    assert len(complaints) == 4
    assert "the server ended 7 requests in a visit of 6: other traffic was on it" in complaints
    steps_of = [each for each in complaints if "the counters are not this visit's alone" in each]
    assert len(steps_of) == 3
    gained, told = map(int, re.findall(r"\d+", steps_of[0]))
    assert gained - told == steps


def test_a_prompt_that_the_server_reads_otherwise_is_an_error_of_its_request(
    tmp_path: Path, served: Served, url: str
) -> None:
    served.bos = 1
    answers, _ = asked(runner(tmp_path, url).open(DFLASH, Opening()))
    assert all("read 4 tokens where the prompt has 3" in (each.error or "") for each in answers)


def test_failures_of_single_requests_leave_the_others(
    tmp_path: Path, served: Served, url: str
) -> None:
    served.faults = {0: "500", 2: "cut", 3: "event", 4: "garbage"}
    answers, totals = asked(runner(tmp_path, url).open(DFLASH, Opening()), Load(1))
    errors = {answer.request: answer.error for answer in answers}
    assert [errors[f"r{i}"] is None for i in range(6)] == [False, True, False, False, False, True]
    assert "out of luck" in (errors["r0"] or "")
    assert "the engine is dead" in (errors["r3"] or "")
    assert "is not what a server of dialect vllm sends: AttributeError" in (errors["r4"] or "")
    # What a failed request cost the counters is not known: nothing is held against them.
    assert "complaints" not in totals.backend


def test_leaving_a_visit_early_stops_sending(tmp_path: Path, served: Served, url: str) -> None:
    visit = runner(tmp_path, url).open(DFLASH, Opening()).run(requests(50), Load(1))
    next(visit)
    visit.close()  # type: ignore[attr-defined]
    assert len(served.seen) < 50


def test_a_stop_string_ends_an_answer_after_its_last_token(tmp_path: Path, url: str) -> None:
    session = runner(tmp_path, url).open(DFLASH, Opening())
    whole = session.run(requests(1), Load(1))
    first = next(iter(whole)).output_ids or ()
    list(whole)
    stop = session.runner.tokenizer.decode(first[4:6])
    answers, _ = asked(session, Load(1), count=1, stop=(stop,))
    answer = answers[0]
    assert answer.output_ids == first[:6]
    assert (answer.output_tokens, answer.finish_reason) == (6, "stop")
    assert answer.output_text is not None
    assert answer.output_text.endswith(stop)
    assert answer.chunks is not None
    assert sum(answer.chunks.tokens) == 6
    assert answer.steps is not None
    assert sum(answer.steps.committed) == 5


def test_a_server_that_is_not_what_its_arm_says_measures_nothing(
    tmp_path: Path, served: Served, url: str
) -> None:
    made = runner(tmp_path, url)
    _, totals = asked(made.open(AR, Opening()))
    assert totals.backend["invalid"] == [
        "arm ar is plain decoding, and its server tells of drafts: it speculates"
    ]
    served.num_draft_tokens = 2
    _, totals = asked(made.open(DFLASH, Opening()))
    assert totals.backend["invalid"] == [
        "arm dflash asks for 3 drafts a step, and its server makes 2"
    ]
    served.num_draft_tokens = 0
    _, totals = asked(made.open(DFLASH, Opening()))
    assert totals.backend["invalid"] == [
        "arm dflash drafts, and its server tells of no drafts: it does not speculate"
    ]
    assert "complaints" not in totals.backend


def test_silence_about_drafts_is_held_against_a_server_only_where_it_would_tell(
    tmp_path: Path, served: Served, url: str
) -> None:
    served.num_draft_tokens, served.counting = 0, False
    _, totals = asked(runner(tmp_path, url).open(DFLASH, Opening()))
    assert "invalid" not in totals.backend
    served.counting = True
    made = runner(tmp_path, url, ask={"dialect": "openai"})
    _, totals = asked(made.open(DFLASH, Opening()))
    assert "invalid" not in totals.backend


def test_counters_that_started_anew_measure_nothing(
    tmp_path: Path, served: Served, url: str
) -> None:
    session = runner(tmp_path, url).open(DFLASH, Opening())
    asked(session)
    served.reset_at = len(served.seen) + 5
    _, totals = asked(session)
    (sentence,) = totals.backend["invalid"]
    assert "the counters started anew during the visit" in sentence
    assert totals.acceptance is None
    assert "complaints" not in totals.backend


def test_a_found_server_without_counters_is_complained_of_once(
    tmp_path: Path, served: Served, url: str
) -> None:
    served.counting = False
    answers, totals = asked(runner(tmp_path, url).open(DFLASH, Opening()))
    (complaint,) = totals.backend["complaints"]
    assert "counters cannot be read" in complaint
    assert "/metrics: the server answered HTTP 404" in complaint
    assert totals.acceptance is None
    assert all(answer.acceptance is not None for answer in answers)


def test_the_block_of_an_arm_that_has_none_is_what_its_server_says(
    tmp_path: Path, served: Served, url: str
) -> None:
    arm = PlannedArm(name="dflash", method="dflash")
    _, totals = asked(runner(tmp_path, url).open(arm, Opening()))
    assert totals.block_size == 4


def test_three_silent_requests_in_a_row_end_a_visit(
    tmp_path: Path, served: Served, url: str
) -> None:
    served.faults = {0: "hang", 2: "hang", **dict.fromkeys(range(4, 20), "hang")}
    session = runner(tmp_path, url, silence_s=0.3).open(DFLASH, Opening())
    with pytest.raises(InfrastructureError, match=r"3 requests in a row.*nothing came for 0.3 s"):
        list(session.run(requests(20), Load(1)))
    assert 7 <= len(served.seen) < 20


def test_the_wait_inside_a_server_is_summed_from_its_answers(
    tmp_path: Path, served: Served, url: str
) -> None:
    served.queue_ms = 20.0
    _, totals = asked(runner(tmp_path, url).open(DFLASH, Opening()), count=4)
    assert totals.backend["queue_s"] == 0.08


def test_records_that_break_their_identities_are_complained_of(
    tmp_path: Path, served: Served, url: str
) -> None:
    served.inflated = 1
    _, totals = asked(runner(tmp_path, url).open(DFLASH, Opening()))
    found = [each for each in totals.backend["complaints"] if "cannot be" in each]
    assert len(found) == 3
    assert found[0].startswith("the acceptance of r")


def test_closing_a_session_stops_a_visit_that_nobody_finishes(
    tmp_path: Path, served: Served, url: str
) -> None:
    served.faults = dict.fromkeys(range(1, 50), "hang")
    session = runner(tmp_path, url).open(DFLASH, Opening())
    visit = session.run(requests(50), Load(2))
    next(visit)
    session.close()
    with pytest.raises(InfrastructureError, match=r"stopped when 1 of 50 requests had ended"):
        list(visit)
    with pytest.raises(RuntimeError, match="before a run was finished"):
        session.totals()
    assert len(served.seen) < 50


def test_other_traffic_beside_plain_decoding_is_complained_of(
    tmp_path: Path, served: Served, url: str
) -> None:
    served.num_draft_tokens = 0
    session = runner(tmp_path, url).open(AR, Opening())
    for number, _ in enumerate(session.run(requests(), Load(1))):
        if number == 2:
            somebody_asks(url)
    assert session.totals().backend["complaints"] == [
        "the server ended 7 requests in a visit of 6: other traffic was on it"
    ]
