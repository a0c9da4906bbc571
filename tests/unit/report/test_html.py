"""The page holds everything, loads nothing, escapes what is not ours, and is the same for the same results."""

import re
from typing import Any

import pytest

from dflash_bench.plan import Unsupported
from dflash_bench.report.html import render
from tests.unit.report.page import Page
from tests.unit.report.results import Result, make_result, of_many_methods

MAX_BYTES = 3_000_000


@pytest.fixture(scope="module")
def html() -> str:
    return render(make_result().report)


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def one_cell() -> Result:
    """One cell with one arm beside the baseline: the quickest page there is."""
    return make_result(workloads=("gsm8k",), batches=(1,), blocks=(4,))


def test_the_same_results_give_the_same_bytes(html: str) -> None:
    assert render(make_result().report) == html


def test_the_page_opens_with_the_answer(page: Page) -> None:
    first = page.text.index("▲ HELPS DFlash helps here: ")
    assert first < page.text.index("Speedup")
    assert [name for name, _ in page.elements].count("h1") == 1


def test_elements_nest(page: Page) -> None:
    assert page.badly_nested == []


def test_no_id_stands_twice_and_every_reference_exists(html: str, page: Page) -> None:
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    referred = re.findall(r"url\(#([^)]+)\)", html) + [
        value.removeprefix("#") for value in page.values("xlink:href")
    ]
    assert referred
    assert set(referred) <= set(ids)


def test_nothing_is_loaded_and_nothing_runs(html: str, page: Page) -> None:
    names = {name for name, _ in page.elements}
    assert names.isdisjoint({"script", "img", "iframe", "object", "embed", "form", "base"})
    assert page.values("src") == []
    assert set(page.values("href")) == {"data:,"}
    assert "@import" not in html
    assert not [name for _, held in page.elements for name in held if name.startswith("on")]
    policies = [held["content"] for held in page.all("meta") if "http-equiv" in held]
    assert len(policies) == 1
    assert (policies[0] or "").startswith("default-src 'none';")


def test_every_figure_is_an_image_with_its_content_in_words(page: Page) -> None:
    labels = [held.get("aria-label") or "" for held in page.all("svg")]
    assert len(labels) == 2 + 4 + 2 + 2
    assert {held["role"] for held in page.all("svg")} == {"img"}
    assert any("batch 1: 1.43x (1.33-1.54) with block 4" in label for label in labels)


def test_figures_take_their_colours_from_the_page(html: str) -> None:
    style, body = html.split("</style>")
    assert re.findall(r"#[0-9a-f]{6}\b", body) == []
    used = set(re.findall(r"var\((--[a-z0-9-]+)\)", html))
    assert used <= set(re.findall(r"(--[a-z0-9-]+):", style))
    # In an attribute, other than style, a variable would not be understood.
    assert not re.findall(r'(?<!style)="var\(', body)


def test_losing_cells_stand_in_the_table_like_winning_ones(page: Page) -> None:
    for verdict in ("▲ HELPS", "▼ HURTS", "? UNPROVEN"):
        assert verdict in page.text
    assert page.text.count("baseline ") >= 4


@pytest.mark.parametrize(
    "words",
    [
        "1,536 of 1,536 outputs are ar's, token for token: unchanged",
        "1.9 % more wall time; process CPU time: 0.1 % more",
        "Some Processor @ 2.5 GHz",
        "1.25, 0.98, 0.7",
        "0123456789abcdef0123456789abcdef01234567",
        "32 prompts asked, 1 left out as too long",
        "dflash-bench sweep examples/quickstart.yaml",
        "Its size says nothing about an 8B model",
        "Block 16 drafts 15 tokens a step. The mean of the requests' own tau is 3.18.",
        "HELPS: the interval lies above 1.05x. HURTS: below 0.952x.",
    ],
)
def test_the_page_says(page: Page, words: str) -> None:
    assert words in page.text


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "$x_$ {{ 7*7 }}", "a\"b'c&d"])
def test_a_name_stays_text_whatever_it_holds(name: str) -> None:
    result = make_result(workloads=(name,), batches=(1,), blocks=(4,))
    result.cells[1]["verdict_reason"] = f"because of {name}"
    result.verdicts["headline"] = {"verdict": "HELPS", "sentence": f"It helps on {name}"}
    result.manifest["machine"]["cpu"] = name
    page = Page(render(result.report))
    assert "script" not in {tag for tag, _ in page.elements}
    assert page.badly_nested == []
    for found in (f"because of {name}", f"It helps on {name}", f"{name}: 32 prompts"):
        assert found in page.text
    assert any(name in (held.get("aria-label") or "") for held in page.all("svg"))


def test_a_server_model_gets_no_box_about_small_ones() -> None:
    assert "Small models." not in render(make_result(target="Qwen/Qwen3-8B").report)


def test_simulated_results_say_so_on_top() -> None:
    result = one_cell()
    result.manifest["simulated"] = True
    text = Page(render(result.report)).text
    assert text.index("SIMULATED.") < text.index("Time per output token")


def test_what_a_runner_cannot_do_is_listed() -> None:
    missing = Unsupported(arm="medusa", cell="gsm8k.b4.t0", reason="one row only")
    result = make_result(workloads=("gsm8k",), batches=(1,), blocks=(4,), unsupported=[missing])
    text = Page(render(result.report)).text
    assert "Unsupported: medusa in gsm8k.b4.t0: one row only" in text


def test_differing_outputs_failures_and_broken_identities_are_in_plain_sight() -> None:
    result = one_cell()
    result.cells[1]["lossless"] |= {"identical": 126, "different": 2, "wrong": None}
    result.cells[1] |= {"failed": 3, "left_out": 3, "identities_broken": ["tau is not 1 + sum"]}
    text = Page(render(result.report)).text
    assert "126 of 128 outputs are ar's, token for token: 2 differ" in text
    assert "3 requests failed; 3 pairs" in text
    assert "Inconsistent: dflash-b4 in gsm8k.b1.t0: tau is not 1 + sum" in text


NULLS: dict[str, Any] = {
    **dict.fromkeys(("speedup", "decode_speedup", "break_even_tau", "pairs", "occupancy")),
    **dict.fromkeys(("ttft_s", "tpot_s", "output_throughput_tok_s", "step_time", "lossless")),
    **dict.fromkeys(("verdict", "verdict_reason", "acceptance_length", "prompts")),
    "acceptance_rate_marginal": [],
    "acceptance_rate_conditional": [],
}


def test_a_cell_of_nulls_is_a_row_of_dashes() -> None:
    result = one_cell()
    for entry in result.cells:
        entry |= NULLS
    result.verdicts = {}
    result.manifest = {"schema_version": 1, "spec": result.manifest["spec"]}
    page = Page(render(result.report))
    assert page.all("svg") == []
    assert "None" not in page.text
    assert "No arm was measured against the baseline" in page.text
    assert "The runner shows no times within a step." in page.text
    assert "No output was compared" in page.text


def test_an_estimate_without_interval_is_drawn_as_a_point() -> None:
    result = one_cell()
    for name in ("speedup", "decode_speedup", "acceptance_length"):
        result.cells[1][name] |= {"value": 2.0, "ci_low": None, "ci_high": None}
    page = Page(render(result.report))
    labels = [held["aria-label"] or "" for held in page.all("svg")]
    assert any("batch 1: 2.00x with" in label for label in labels)


def test_a_position_that_no_step_reached_is_left_open() -> None:
    result = one_cell()
    result.cells[1] |= {
        "acceptance_rate_marginal": [0.5, 0.0, 0.0],
        "acceptance_rate_conditional": [0.5, 0.0, None],
    }
    assert "— at 3" in render(result.report)


def test_the_baseline_alone_makes_a_page() -> None:
    result = make_result()
    result.cells = [entry for entry in result.cells if entry["arm"] == "ar"]
    page = Page(render(result.report))
    assert "No arm was measured against the baseline" in page.text
    assert len(page.all("svg")) == 2


def test_hundreds_of_cells_make_a_page_that_can_be_mailed() -> None:
    names = [f"workload-{number}" for number in range(16)]
    result = make_result(
        workloads=names, batches=(1, 4, 16), blocks=(4, 8, 16), context_lengths=(None, 1024, 4096)
    )
    assert len(result.cells) > 500
    html = render(result.report)
    assert len(html.encode()) < MAX_BYTES
    page = Page(html)
    assert len(page.all("svg")) == 4 * 6
    assert page.text.count("Shown: the first 6 of 48 groups of cells") == 3
    assert "workload-15, context 4,096" in page.text


def test_eight_arms_of_many_methods_are_all_shown_and_labelled() -> None:
    page = Page(render(of_many_methods().report))
    assert page.badly_nested == []
    assert "first 6 of" not in page.text
    assert page.text.count("medusa-typical (LOSSY)") >= 5
    assert "LOSSY. medusa-typical: the rule typical accepts" in page.text
    assert "not compared: same law, other noise" in page.text
    assert "768 of 768 outputs that must be equal are ar's, token for token: unchanged" in page.text
    assert "drafts a tree of 4 tokens a step" in page.text
