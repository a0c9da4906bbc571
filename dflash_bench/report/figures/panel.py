"""One small SVG drawn by matplotlib, made fit to stand inside an HTML page. The same input gives the same bytes.

matplotlib is imported while drawing and not before: most verbs never draw. No text of the user's reaches a figure
unescaped: the SVG writer escapes XML, and `text.parse_math` is off, so that `$x$` in a name stays what it is.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from dflash_bench.report.figures.palette import INK, MUTED, RULE, VARIABLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Inches, at 72 units of the SVG's view box each; the page scales a panel to its column.
WIDTH = 4.4
HEIGHT = 3.1

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": RULE,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": False,
    "figure.facecolor": "none",
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "hatch.linewidth": 0.6,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.minor.visible": False,
    "ytick.minor.visible": False,
}


@dataclass(frozen=True)
class Panel:
    """A titled SVG and its content in words, for those who do not see it."""

    title: str
    svg: Markup
    summary: str


def draw(
    title: str, paint: Callable[["Axes"], None], summary: str, *, height: float = HEIGHT
) -> Panel:
    """Let `paint` fill the axes of a fresh figure, `WIDTH` by `height` inches."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context():
        # From the defaults, so that a matplotlibrc on this machine changes nothing.
        mpl.rcdefaults()
        mpl.rcParams.update({**STYLE, "svg.hashsalt": f"{title}/{summary}"})
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        paint(figure.add_subplot())
        buffer = StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    return Panel(title, inline(buffer.getvalue(), summary), summary)


def inline(document: str, summary: str) -> Markup:
    """Turn matplotlib's SVG document into an element of a page: no prologue, no metadata, colours by CSS variable."""
    svg = document[document.index("<svg ") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, count=1, flags=re.DOTALL)
    # Its style sheet would apply to the whole page, and its group ids would stand in the page once per figure.
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"/>\s*', "", svg)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    # A CSS variable is understood in a style, not in an attribute.
    svg = re.sub(r' fill="(#[0-9a-f]{6})"', r' style="fill: \1"', svg)
    svg = re.sub(r"font(-family)?: [^;\"]*'[^;\"]*", _without_family, svg)
    svg = re.sub(r' width="[^"]*" height="[^"]*"', "", svg, count=1)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(summary)}" ', 1)
    for colour, name in VARIABLES.items():
        svg = svg.replace(colour, f"var(--{name})")
    return Markup(re.sub(r"\s*\n\s*", " ", svg).strip())


def _without_family(declaration: re.Match[str]) -> str:
    """Keep the size of a font declaration; the family is the page's."""
    size = re.search(r"[\d.]+px", declaration.group())
    return f"font-size: {size.group()}" if size else "font-style: normal"
