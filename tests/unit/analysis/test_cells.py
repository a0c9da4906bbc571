"""From records to cells.json and verdicts.json, the whole way."""

import json
from typing import Any

import pytest

from dflash_bench.analysis.cells import Analysis, analyse
from dflash_bench.plan import make_plan
from tests.unit.analysis.recording import (
    CELL,
    Record,
    answer,
    failure,
    plan,
    recording,
    rounds,
    spec,
    steps,
    visit,
)

FOUR = (2.0, 2.02, 1.98, 2.0)
# Keys that scripts rely on; all of them, in every entry.
KEYS = {
    "cell", "arm", "method", "block_size", "num_draft_tokens", "runner", "simulated", "rounds", "requests",
    "output_tokens", "verify_steps", "drafted_tokens", "accepted_tokens", "acceptance_length",
    "acceptance_rate_marginal", "acceptance_rate_conditional", "speedup", "decode_speedup", "break_even_tau",
    "occupancy", "ttft_s", "tpot_s", "output_throughput_tok_s", "lossless", "lints", "verdict", "verdict_reason",
}  # fmt: skip


def analysed(lines: list[Record], **changes: Any) -> Analysis:
    return analyse(plan(**changes), spec(**changes), lines)


def by_arm(found: Analysis) -> dict[str, dict[str, Any]]:
    return {entry["arm"]: entry for entry in found.cells}


def test_an_arm_twice_as_fast_helps() -> None:
    found = analysed(rounds(FOUR))
    arm = by_arm(found)["dflash-b4"]
    assert arm["speedup"]["value"] == pytest.approx(2.0, rel=1e-3)
    assert arm["speedup"]["ci_low"] < 2 < arm["speedup"]["ci_high"]
    assert arm["pairs"] == list(FOUR)
    assert arm["acceptance_length"]["value"] == 2.0
    assert arm["window"]["acceptance_length"] == 2.0
    assert arm["decode_speedup"]["value"] * arm["break_even_tau"]["value"] == pytest.approx(
        2.0, 1e-4
    )
    assert arm["verdict"] == "HELPS"
    assert found.verdicts["headline"]["verdict"] == "HELPS"
    assert found.verdicts["cells"][0]["reason"] == arm["verdict_reason"]
    assert found.verdicts["best_arms"] == {CELL: ["dflash-b4"]}


def test_counts_are_pooled_over_rounds_and_the_identities_hold() -> None:
    # Per round 3 + 5 + 7 + 9 tokens in 1 + 2 + 3 + 4 steps of 3 drafts, one of them accepted.
    arm = by_arm(analysed(rounds(FOUR)))["dflash-b4"]
    assert (arm["rounds"], arm["prompts"], arm["requests"], arm["failed"]) == (4, 4, 16, 0)
    assert (arm["output_tokens"], arm["verify_steps"]) == (96, 40)
    assert (arm["drafted_tokens"], arm["accepted_tokens"]) == (120, 40)
    assert arm["accepted_tokens"] + arm["verify_steps"] == arm["output_tokens"] - arm["requests"]
    assert arm["identities_broken"] == []


def test_every_entry_has_every_key() -> None:
    for lines in ([], rounds(FOUR)):
        for entry in analysed(lines).cells:
            assert set(entry) >= KEYS


def test_the_baseline_has_its_own_figures_and_no_comparison() -> None:
    entry = by_arm(analysed(rounds(FOUR)))["ar"]
    assert entry["output_throughput_tok_s"] == 1.0
    assert entry["acceptance_length"]["value"] == 1.0
    for key in ("speedup", "decode_speedup", "break_even_tau", "pairs", "verdict"):
        assert entry[key] is None
    assert entry["lints"] == []
    assert entry["lossless"]["control_identical"] == 12


def test_the_same_records_give_the_same_bytes_and_no_nan() -> None:
    lines = rounds(FOUR)
    first, second = (analysed(lines) for _ in range(2))
    for one, other in ((first.cells, second.cells), (first.verdicts, second.verdicts)):
        assert json.dumps(one, allow_nan=False) == json.dumps(other, allow_nan=False)


def test_no_records_give_nulls_and_unproven() -> None:
    found = analysed([])
    arm = by_arm(found)["dflash-b4"]
    assert arm["requests"] == 0
    assert arm["output_tokens"] is None
    assert arm["speedup"]["value"] is None
    assert arm["acceptance_length"]["value"] is None
    assert arm["lossless"]["wrong"] is None
    assert arm["verdict"] == "UNPROVEN"
    json.dumps(found.cells, allow_nan=False)


def test_a_broken_record_is_named_in_its_entry_and_stops_nothing() -> None:
    lines = rounds(FOUR)
    lines[-2]["steps"]["accepted"][0] = 9
    arm = by_arm(analysed(lines))["dflash-b4"]
    assert "accepted <= drafted fails in 1 of 40 steps" in arm["identities_broken"]
    assert arm["speedup"]["value"] == pytest.approx(2.0, rel=1e-3)


def test_three_rounds_are_unproven() -> None:
    arm = by_arm(analysed(rounds(FOUR[:3])))["dflash-b4"]
    assert arm["verdict"] == "UNPROVEN"
    assert "needs 4 rounds; there are 3" in arm["verdict_reason"]


def test_changed_texts_are_unproven_however_fast() -> None:
    lines = rounds(FOUR)
    lines[-2]["output_ids"][0] = 99
    arm = by_arm(analysed(lines))["dflash-b4"]
    assert arm["lossless"]["different"] == 1
    assert arm["verdict"] == "UNPROVEN"
    assert "1 of 16 outputs differ" in arm["verdict_reason"]


def test_a_failed_request_leaves_its_pair_out_of_the_speedup_only() -> None:
    ar, fast = steps(0, 0, drafted=0), steps(1)
    found = analysed(
        recording(
            visit("ar", 1, [answer("p0", ar), answer("p1", ar)]),
            visit("dflash-b4", 1, [answer("p0", fast), failure("p1")]),
        )
    )
    arm, baseline = by_arm(found)["dflash-b4"], by_arm(found)["ar"]
    assert (arm["requests"], arm["failed"], arm["left_out"]) == (1, 1, 1)
    assert (baseline["requests"], baseline["failed"]) == (2, 0)
    assert arm["speedup"]["value"] == pytest.approx(2.5 / 1.5, rel=1e-5)
    assert arm["per_prompt"] == {"p0": pytest.approx(2.5 / 1.5, rel=1e-5)}


def test_outputs_of_other_lengths_show_in_the_length_ratio() -> None:
    found = analysed(
        recording(
            visit("ar", 1, [answer("p0", steps(0, 0, 0, drafted=0))]),
            visit("dflash-b4", 1, [answer("p0", steps(0))]),
        )
    )
    assert by_arm(found)["dflash-b4"]["length_ratio"] == 0.5


def test_in_a_batch_shares_of_the_window_decide() -> None:
    # Two slots share each second: four steps of two rows are 4 s of wall, 2 s for each request; the window ends there,
    # and p1's last step, alone in the drain, is in its output and not in its share.
    changes: dict[str, Any] = {"sweep": {"block_size": [4], "batch_size": [2]}}
    where: dict[str, Any] = {"cell": "sample-math.b2.t0", "occupancy": 1.0, "window_wall_s": 5.0}
    ar = steps(0, 0, 0, 0, drafted=0)
    drained = answer("p1", steps(0, 0, 0, 0, 0, drafted=0), step_s=0.5)
    drained["window"] = answer("p1", ar, step_s=0.5)["window"]
    fast = [answer(name, steps(1, 1), step_s=0.5) for name in ("p0", "p1")]
    found = analysed(
        recording(
            visit("ar", 1, [answer("p0", ar, step_s=0.5), drained], **where),
            visit("dflash-b4", 1, fast, **where | {"window_wall_s": 3.0}),
        ),
        **changes,
    )
    arm, baseline = by_arm(found)["dflash-b4"], by_arm(found)["ar"]
    assert arm["cell"]["batch_size"] == 2
    assert baseline["output_throughput_tok_s"] == pytest.approx(10 / 5)
    assert arm["speedup"]["value"] == pytest.approx((5 / 10) / (3 / 10), rel=1e-5)
    assert baseline["identities_broken"] == []


def test_a_primary_cell_decides_and_unknown_ones_are_refused() -> None:
    changes: dict[str, Any] = {
        "design": {"primary": {"batch_size": 4}},
        "sweep": {"block_size": [4], "batch_size": [1, 4]},
    }
    other = "sample-math.b4.t0"
    found = analysed(rounds(FOUR) + rounds([0.5, 0.51, 0.49, 0.5], cell=other), **changes)
    assert found.verdicts["primary"] == other
    assert found.verdicts["headline"]["verdict"] == "HURTS"
    assert [line["verdict"] for line in found.verdicts["cells"]] == ["HELPS", "HURTS"]


def test_many_comparisons_raise_the_bar() -> None:
    # Alone this arm's interval clears 1.05; as the best of twelve comparisons it does not.
    close = [1.11, 1.17, 1.10, 1.16]
    assert by_arm(analysed(rounds(close)))["dflash-b4"]["verdict"] == "HELPS"
    changes: dict[str, Any] = {"sweep": {"block_size": [4], "batch_size": list(range(1, 13))}}
    many = [
        line for batch in range(1, 13) for line in rounds(close, cell=f"sample-math.b{batch}.t0")
    ]
    arm = by_arm(analysed(many, **changes))["dflash-b4"]
    assert arm["verdict"] == "UNPROVEN"
    assert "not among 12 comparisons" in arm["verdict_reason"]


def test_drift_of_the_controls_is_told_and_they_are_in_no_estimate() -> None:
    slow = [answer("p0", steps(0, drafted=0), step_s=3.0)]
    fast = [answer("p0", steps(0, drafted=0))]
    lines = recording(
        visit("ar", 0, fast, role="control_first"),
        rounds(FOUR),
        visit("ar", 0, slow, role="control_last"),
    )
    found = analysed(lines)
    assert found.verdicts["drift"]["wall_ratio"] == pytest.approx(3.5 / 1.5, rel=1e-5)
    assert found.cells == analysed(rounds(FOUR)).cells


def test_simulated_runs_say_so_everywhere() -> None:
    found = analyse(plan(), spec(), rounds(FOUR), simulated=True)
    assert all(entry["simulated"] for entry in found.cells)
    assert found.verdicts["headline"]["sentence"].startswith("SIMULATED. ")


def test_an_unsupported_cell_is_not_an_entry() -> None:
    changes: dict[str, Any] = {"sweep": {"block_size": [4], "batch_size": [1, 4]}}
    wanted = make_plan(
        spec(**changes),
        lambda arm, cell: "too wide" if cell.batch_size == 4 and arm.method != "ar" else None,
    )
    found = analyse(wanted, spec(**changes), rounds(FOUR))
    assert [(entry["cell"]["batch_size"], entry["arm"]) for entry in found.cells] == [
        (1, "ar"),
        (1, "dflash-b4"),
        (4, "ar"),
    ]


def verifying(rule: str, temperature: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Analyse an arm twice as fast, of that rule, whose texts differ from the baseline's; its entry, the verdicts."""
    arms = {"ar": {"method": "ar"}, "dflash": {"method": "medusa", "draft": "x", "verify": rule}}
    lines = rounds(FOUR, cell=f"sample-math.b1.t{temperature:g}")
    for line in lines:
        if line["kind"] == "request" and "dflash" in line["visit"]:
            line["output_ids"] = [id_ + 1 for id_ in line["output_ids"]]
    found = analysed(lines, arms=arms, sweep={"block_size": [4], "temperature": [temperature]})
    return by_arm(found)["dflash-b4"], found.verdicts


def test_texts_of_another_noise_are_not_compared_and_may_help() -> None:
    entry, verdicts = verifying("reject", 1.0)
    assert (entry["verdict"], entry["lossy"], entry["verify"]) == ("HELPS", False, "reject")
    assert entry["lossless"]["promise"] == "law"
    assert entry["lossless"]["compared"] == 0
    assert "differ" not in verdicts["headline"]["sentence"]
    assert verifying("reject", 0.0)[0]["lossless"]["different"] == 16


def test_a_lossy_arm_is_labelled_never_helps_and_is_never_best() -> None:
    entry, verdicts = verifying("typical", 1.0)
    assert (entry["verdict"], entry["lossy"]) == ("UNPROVEN", True)
    assert entry["verdict_reason"].startswith("LOSSY: 2.00x")
    assert (entry["lossless"]["promise"], entry["lossless"]["different"]) == ("nothing", 16)
    assert verdicts["cells"][0]["lossy"] is True
    assert list(verdicts["best_arms"].values()) == [[]]
    assert "LOSSY" in verdicts["headline"]["sentence"]


def test_a_block_size_that_the_plan_leaves_open_is_what_the_visits_tell() -> None:
    arms = {"ar": {"method": "ar"}, "dflash": {"method": "dflash", "draft": "x"}}
    told = by_arm(analysed(rounds(FOUR, arm="dflash", block_size=16), arms=arms, sweep={}))
    assert (told["dflash"]["block_size"], told["dflash"]["num_draft_tokens"]) == (16, 15)
    silent = by_arm(analysed(rounds(FOUR, arm="dflash"), arms=arms, sweep={}))
    assert (silent["dflash"]["block_size"], silent["dflash"]["num_draft_tokens"]) == (None, None)
    assert silent["dflash"]["scheduled_tokens"] is None


def test_what_is_verified_of_a_block_is_not_its_size() -> None:
    arms = {
        "ar": {"method": "ar"},
        "dflash": {"method": "dflash", "draft": "x", "verify_length": 5},
    }
    found = by_arm(analysed(rounds(FOUR, arm="dflash", block_size=5), arms=arms, sweep={}))
    assert (found["dflash"]["block_size"], found["dflash"]["num_draft_tokens"]) == (None, 4)
