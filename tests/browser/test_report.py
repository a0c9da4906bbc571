"""The page in a real browser: it opens, asks for nothing, complains of nothing, and fits a phone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dflash_bench.report.html import render
from tests.browser.chromium import Tab, browser, find
from tests.unit.report.results import make_result

PROGRAM = find()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(PROGRAM or "", tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render(make_result().report), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_page_never_scrolls_sideways(tab: Tab, page: Path, width: int) -> None:
    tab.open(page, width)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_a_wide_table_scrolls_in_its_own_frame(tab: Tab, page: Path) -> None:
    tab.open(page, 360)
    frames = "[...document.querySelectorAll('.scroll')]"
    assert tab.evaluate(f"{frames}.some(f => f.scrollWidth > f.clientWidth)")
    assert tab.evaluate(f"{frames}.every(f => f.getBoundingClientRect().right <= 360)")


def test_only_the_page_itself_is_asked_for(tab: Tab, page: Path) -> None:
    tab.open(page, 1280)
    asked = [event["request"]["url"] for event in tab.reported("Network.requestWillBeSent")]
    assert [url for url in asked if not url.startswith("data:")] == [page.resolve().as_uri()]


def test_the_browser_has_nothing_to_complain_of(tab: Tab, page: Path) -> None:
    tab.open(page, 1280)
    assert tab.reported("Log.entryAdded") == []
    assert tab.reported("Runtime.exceptionThrown") == []
    assert tab.reported("Runtime.consoleAPICalled") == []


def test_figures_follow_the_colour_scheme(tab: Tab, page: Path) -> None:
    colours = []
    for scheme in ("light", "dark"):
        tab.open(page, 1280, scheme)
        text = "getComputedStyle(document.querySelector('svg text')).fill"
        ground = "getComputedStyle(document.documentElement).backgroundColor"
        colours.append((tab.evaluate(text), tab.evaluate(ground)))
    assert colours[0] != colours[1]
    assert all(text != ground for text, ground in colours)
