"""The run in one sentence."""

from typing import Any

from dflash_bench.analysis.headline import headline


def entry(
    verdict: str | None,
    value: float | None,
    *,
    workload: str = "sample-code",
    batch: int = 1,
    block: int = 16,
    half: float = 0.1,
    **changes: Any,
) -> dict[str, Any]:
    low, high = (None, None) if value is None else (value - half, value + half)
    return {
        "cell": {
            "workload": workload,
            "batch_size": batch,
            "context_length": None,
            "temperature": 0.0,
        },
        "cell_id": f"{workload}.b{batch}.t0",
        "arm": f"dflash-b{block}",
        "method": "dflash",
        "block_size": block,
        "speedup": {"value": value, "ci_low": low, "ci_high": high},
        "simulated": False,
        "verdict": verdict,
        "lossless": {"compared": 24, "different": 0},
    } | changes


BASELINE = entry(None, None, arm="ar", method="ar", block_size=None, speedup=None)


def test_one_cell() -> None:
    found = headline([BASELINE, entry("HELPS", 3.9)])
    assert found == {
        "verdict": "HELPS",
        "sentence": "DFlash helps: 3.90x (3.80-4.00) on sample-code at batch 1 with block 16.",
    }


def test_several_cells_give_best_worst_and_counts() -> None:
    found = headline(
        [entry("HELPS", 3.9), entry("HELPS", 1.2, batch=4), entry("UNPROVEN", 1.0, workload="chat")]
    )
    assert found["verdict"] == "HELPS"
    assert found["sentence"] == (
        "DFlash helps in 2, is not proven to help in 1 of 3 cells: "
        "from 1.00x (0.90-1.10) on chat at batch 1 with block 16 "
        "to 3.90x (3.80-4.00) on sample-code at batch 1 with block 16."
    )


def test_a_cell_counts_by_its_best_block_and_best_is_a_set() -> None:
    blocks = [entry("HELPS", 3.9), entry("HELPS", 3.75, block=8), entry("HURTS", 0.8, block=4)]
    found = headline(blocks, best_arms={"sample-code.b1.t0": ["dflash-b8", "dflash-b16"]})
    assert found["verdict"] == "HELPS"
    assert found["sentence"].endswith("cell dflash-b8 and dflash-b16 cannot be told apart.")


def test_an_arm_that_helps_stands_for_its_cell_before_a_faster_unproven_one() -> None:
    found = headline([entry("UNPROVEN", 4.0), entry("HELPS", 3.0, block=8)])
    assert found["verdict"] == "HELPS"
    assert "3.00x" in found["sentence"]


def test_help_here_and_hurt_there_is_mixed() -> None:
    found = headline([entry("HELPS", 2.0), entry("HURTS", 0.7, batch=4)])
    assert found["verdict"] == "MIXED"
    assert found["sentence"].startswith("DFlash helps in 1, hurts in 1 of 2 cells: from 0.70x")


def test_one_verdict_in_all_cells_is_said_once() -> None:
    found = headline([entry("HELPS", 2.0), entry("HELPS", 3.0, batch=4)])
    assert found["sentence"].startswith("DFlash helps in all 2 cells: from 2.00x")


def test_the_primary_cell_decides() -> None:
    cells = [entry("HURTS", 0.7, batch=4), entry("HELPS", 2.0)]
    found = headline(cells, primary="sample-code.b4.t0")
    assert found["verdict"] == "HURTS"
    assert found["sentence"] == (
        "DFlash hurts: 0.70x (0.60-0.80) on sample-code at batch 4 with block 16. "
        "Of all 2 cells it helps in 1, hurts in 1."
    )


def test_context_and_temperature_are_named_where_they_are_set() -> None:
    cell = {"workload": "w", "batch_size": 1, "context_length": 1024, "temperature": 0.8}
    found = headline([entry("NEUTRAL", 1.0, cell=cell)])
    assert "on w at batch 1, context 1024, temperature 0.8 with block 16" in found["sentence"]
    assert found["sentence"].startswith("DFlash makes no difference")


def test_nothing_measured_is_unproven() -> None:
    assert headline([BASELINE])["verdict"] == "UNPROVEN"
    assert headline([entry("UNPROVEN", None)])["verdict"] == "UNPROVEN"


def test_an_arm_without_an_interval_is_told_without_one() -> None:
    bare = entry("UNPROVEN", 2.0)
    bare["speedup"] = {"value": 2.0, "ci_low": None, "ci_high": None}
    assert "2.00x on sample-code" in headline([bare])["sentence"]


def test_outputs_that_differ_are_said_in_the_headline() -> None:
    changed = entry("UNPROVEN", 2.0, lossless={"compared": 24, "different": 3})
    found = headline([changed, entry("HELPS", 3.0, block=8)])
    assert found["sentence"].endswith("3 of 48 outputs differ from the baseline's.")


def test_simulated_results_are_labelled() -> None:
    assert headline([entry("HELPS", 2.0, simulated=True)])["sentence"].startswith("SIMULATED. ")


def eagle(verdict: str, value: float, **changes: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"arm": "eagle3-tree", "method": "eagle3", "block_size": 60}
    return entry(verdict, value, **(told | changes))


def test_of_several_methods_dflash_is_asked_about_and_the_fastest_is_named() -> None:
    cells = [entry("HELPS", 3.0), eagle("HELPS", 3.5), eagle("HELPS", 1.5, batch=4)]
    best = {"sample-code.b1.t0": ["eagle3-tree"]}
    found = headline([*cells, entry("HELPS", 2.0, batch=4)], best_arms=best)
    assert found["sentence"] == (
        "DFlash helps in all 2 cells: from 2.00x (1.90-2.10) on sample-code at batch 4 with block 16 "
        "to 3.00x (2.90-3.10) on sample-code at batch 1 with block 16. "
        "In that cell eagle3-tree is faster. "
        "Of 2 methods the fastest by estimate is EAGLE-3 in 1 and DFlash in 1 of 2 cells."
    )


def test_without_dflash_the_fastest_method_is_asked_about() -> None:
    found = headline([eagle("HELPS", 2.0), eagle("HELPS", 2.5, method="ngram", arm="ngram")])
    assert found["sentence"].startswith("N-gram drafting helps: 2.50x (2.40-2.60) on sample-code")
    assert found["sentence"].endswith("Of 2 methods the fastest by estimate is n-gram drafting.")


def test_an_arm_that_no_block_names_is_called_by_its_name() -> None:
    assert "at batch 1 (eagle3-tree)." in headline([eagle("HELPS", 2.0)])["sentence"]


def test_many_equals_are_counted_not_listed() -> None:
    best = {"sample-code.b1.t0": ["dflash-b16", "a", "b", "c", "d", "e"]}
    found = headline([entry("HELPS", 3.0)], best_arms=best)
    assert found["sentence"].endswith(
        "In the best cell dflash-b16, a, b and 3 others cannot be told apart."
    )


def test_a_lossy_arm_stands_for_nothing_and_is_named() -> None:
    fast = eagle("UNPROVEN", 9.0, lossy=True, arm="medusa-typical", method="medusa")
    fast["lossless"] = {"compared": 24, "different": 24}
    found = headline([entry("HELPS", 3.0), fast])
    assert found["verdict"] == "HELPS"
    assert "9.00x" not in found["sentence"]
    assert "differ from" not in found["sentence"]
    assert found["sentence"].endswith("LOSSY, so not among them: medusa-typical.")


def test_lossy_arms_alone_give_no_figure() -> None:
    fast = eagle("HURTS", 0.5, lossy=True, arm="medusa-typical", method="medusa")
    assert headline([fast, fast | {"cell_id": "y.b1.t0"}]) == {
        "verdict": "UNPROVEN",
        "sentence": "Only LOSSY arms were measured: medusa-typical.",
    }


def test_a_second_plain_arm_is_no_method() -> None:
    matched = entry("HELPS", 4.5, arm="ar-matched", method="ar", block_size=None)
    found = headline([BASELINE, matched, entry("HELPS", 3.9)])
    assert found["sentence"].endswith("with block 16.")
    assert headline([BASELINE, matched])["sentence"].startswith("AR helps: 4.50x")


def test_the_axes_that_are_swept_are_named() -> None:
    cell = entry("HELPS", 3.9)["cell"] | {"max_new_tokens": 64, "target_quantization": "int8"}
    found = headline([BASELINE, entry("HELPS", 3.9, cell=cell | {"request_rate": 2.0})])
    assert ", 64 new tokens, 2 requests/s, int8 weights with block 16." in found["sentence"]
