"""A panel is an SVG that may stand in a page: no prologue, no style of its own, text as text, the same every time."""

from typing import TYPE_CHECKING
from xml.etree import ElementTree

import matplotlib as mpl
import pytest

from dflash_bench.report.figures.palette import INK, LOOKS, VARIABLES
from dflash_bench.report.figures.panel import draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def paint(axes: "Axes") -> None:
    axes.plot([1, 2], [1, 2], "o-", color=INK)
    axes.set_title("<script>$x$ & more")


def test_the_svg_is_one_xml_element() -> None:
    panel = draw("title", paint, 'a "quoted" <summary>')
    root = ElementTree.fromstring(panel.svg)
    assert root.tag.endswith("svg")
    assert root.attrib["aria-label"] == 'a "quoted" <summary>'
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags.isdisjoint({"metadata", "style", "script"})


def test_text_is_text_and_dollars_are_no_formula() -> None:
    root = ElementTree.fromstring(draw("title", paint, "summary").svg)
    texts = [
        "".join(element.itertext()) for element in root.iter() if element.tag.endswith("}text")
    ]
    assert "<script>$x$ & more" in texts


def test_the_same_panel_has_the_same_bytes_whatever_the_user_set() -> None:
    first = draw("title", paint, "summary")
    with mpl.rc_context({"lines.linewidth": 9, "font.size": 30}):
        assert draw("title", paint, "summary") == first


def test_drawing_leaves_the_users_settings_alone() -> None:
    with mpl.rc_context({"lines.linewidth": 9}):
        draw("title", paint, "summary")
        assert mpl.rcParams["lines.linewidth"] == 9


@pytest.mark.parametrize("attribute", ["colour", "marker", "glyph", "hatch", "swatch"])
def test_series_differ_in_more_than_colour(attribute: str) -> None:
    assert len({getattr(look, attribute) for look in LOOKS}) == len(LOOKS)


def test_every_role_has_a_colour_of_its_own() -> None:
    assert len(set(VARIABLES.values())) == len(VARIABLES)
