"""The colours and shapes of a figure, by role.

In the page each colour is a CSS variable, so that one SVG serves light, dark and print. Series colours are those of
Okabe and Ito, which stay apart under every common colour blindness ("Color Universal Design", 2008), and a brown that
is darker than all of them; each series also has a shape and a hatch of its own, since colour alone tells some readers
nothing.
"""

from dataclasses import dataclass

INK = "#1d1d1f"
MUTED = "#63625e"
RULE = "#dbd8d0"
PAPER = "#fffffd"
BAND = "#f0eee8"
GAIN = "#007a58"
LOSS = "#c4500a"


@dataclass(frozen=True)
class Look:
    """A series: its colour, matplotlib marker and hatch, and the characters for these in a legend."""

    colour: str
    variable: str
    marker: str
    glyph: str
    hatch: str
    swatch: str


LOOKS = (
    Look("#0072b2", "series-1", "o", "●", "", "■"),
    Look("#d55e00", "series-2", "s", "■", "////", "▨"),
    Look("#009e73", "series-3", "^", "▲", "\\\\\\\\", "▧"),
    Look("#cc79a7", "series-4", "D", "◆", "----", "▤"),
    Look("#8a8781", "series-5", "v", "▼", "xxxx", "▩"),
    Look("#e69f00", "series-6", "P", "✚", "||||", "▥"),
    Look("#56b4e9", "series-7", "X", "✖", "....", "▦"),
    Look("#5b3a1e", "series-8", "*", "★", "oo", "◙"),
)

VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    RULE: "rule",
    PAPER: "paper",
    BAND: "band",
    GAIN: "gain",
    LOSS: "loss",
    **{look.colour: look.variable for look in LOOKS},
}


def look(index: int) -> Look:
    """Return the look of series `index`; after the last one they start again."""
    return LOOKS[index % len(LOOKS)]
