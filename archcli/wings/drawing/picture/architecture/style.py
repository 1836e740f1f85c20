"""Colours and fonts of a drawing of an architecture, and plain shapes with their CSS classes.

Classes: `solid-HUE` and `tint-HUE` fill, `s-HUE` strokes, `size-…`, `ink`, `muted` and `on` are of text.
Colours are plain values: the PNG renderer knows no `var()`.
"""

from __future__ import annotations

from math import fsum
from typing import Any, NamedTuple, TypeAlias

from archcli.render.picture.labels import text_width
from archcli.wings.drawing.drawn import Figure, NumberedLine, Statement
from archcli.wings.drawing.picture.architecture.numbers import written
from archcli.wings.drawing.picture.architecture.shapes import SvgShape
from archcli.wings.drawing.picture.architecture.traced import plain_text


class Shades(NamedTuple):
    """A hue's solid and tint, on a light and on a dark background."""

    solid: str
    tint: str
    dark_solid: str
    dark_tint: str


HUES = {
    "attention": Shades("#0072B2", "#D3E7F4", "#58B4EC", "#0F3552"),
    "recurrent": Shades("#00795A", "#CDEBE0", "#2CC79B", "#0B3D30"),
    "dense": Shades("#B87900", "#FBE9C2", "#F0B429", "#463409"),
    "experts": Shades("#C24E00", "#F8DCC8", "#F58646", "#50290F"),
    "shared": Shades("#9C3F78", "#F2DCE9", "#DE93C0", "#46223A"),
    "plain": Shades("#8C959F", "#E3E6EA", "#7D8590", "#2B323B"),
}
"""Okabe and Ito's hues (2008), darkened until text on the solid and on the tint has a contrast of 4.5."""

GROUNDS = {
    "paper": ("#FFFFFF", "#0D1117"),
    "panel": ("#F6F8FA", "#151B23"),
    "ink": ("#1F2328", "#E6EDF3"),
    "muted": ("#57606A", "#A3ADB8"),
    "on": ("#FFFFFF", "#0B0E12"),
    "line": ("#7A838D", "#848D97"),
    "hair": ("#D0D7DE", "#30363D"),
}
"""Light and dark: the page, a panel, text, lesser text, text on a solid, lines, and outlines of panels."""

SIZES = {
    "title": (26.0, 700),
    "key": (20.0, 650),
    "head": (15.0, 600),
    "label": (13.0, 600),
    "small": (12.5, 400),
}
"""Size and weight of text. Nothing is smaller than 12.5, which is 10 pixels where a page is 800 wide."""
FONTS = 'Inter,"Helvetica Neue",Helvetica,"DejaVu Sans",Arial,"Liberation Sans",sans-serif'
SEMIBOLD = 600
LEADING = 16.0
"""Line height of small text."""
# added width, as a fraction of the font size: `text_width` counts these signs as letters, which are narrower
WIDE = dict.fromkeys("×→…—≤≥#<>~√", 0.37)


def css() -> str:
    """The style sheet of a drawing."""
    light = "".join(_rules({name: (hue.solid, hue.tint) for name, hue in HUES.items()}, 0))
    dark = "".join(_rules({name: (hue.dark_solid, hue.dark_tint) for name, hue in HUES.items()}, 1))
    sizes = "".join(
        f".size-{name}{{font-size:{size:g}px;font-weight:{weight}}}" for name, (size, weight) in SIZES.items()
    )
    plain = (
        f"text{{font-family:{FONTS};font-variant-numeric:tabular-nums}}{sizes}"
        ".none{fill:#fff;fill-opacity:0}.thin{stroke-width:1}.hairline{stroke-width:.5}"
        ".edge{stroke-width:1.5;fill:none}"
        ".edge-ring{stroke-width:1.5}.hatched{fill:url(#hatch)}"
        ".stream{stroke-width:3;fill:none;stroke-linecap:square}"
        ".held{fill:#fff;fill-opacity:0;stroke-width:1.5;stroke-dasharray:4 3}"
    )
    return f"{plain}\n{light}\n@media (prefers-color-scheme:dark){{{dark}}}"


def _rules(hues: dict[str, tuple[str, str]], scheme: int) -> list[str]:
    """The rules of one scheme, 0 light and 1 dark."""
    tinted = [
        f".solid-{name}{{fill:{solid}}}.tint-{name}{{fill:{tint}}}.s-{name}{{stroke:{solid}}}"
        for name, (solid, tint) in hues.items()
    ]
    grounds = [
        f".{name}{{fill:{shades[scheme]}}}.s-{name}{{stroke:{shades[scheme]}}}"
        for name, shades in GROUNDS.items()
    ]
    return [*tinted, *grounds]


def definitions() -> SvgShape:
    """SVG definitions: the hatch over pieces rotated by RoPE, and arrow heads."""
    stripe = SvgShape("rect", {"width": 2, "height": 5, "class_": "paper"})
    turned = {"patternUnits": "userSpaceOnUse", "patternTransform": "rotate(45)"}
    pattern = SvgShape("pattern", {"id": "hatch", "width": 5, "height": 5, **turned}, (stripe,))
    sizes = {"markerUnits": "userSpaceOnUse", "markerWidth": 8, "markerHeight": 8, "refX": 4, "refY": 4}
    tip = path("M0 0.5L7 4L0 7.5Z", "line")
    head = SvgShape("marker", {"id": "head", **sizes, "orient": "auto"}, (tip,))
    return SvgShape("defs", {}, (pattern, head))


STATED = "stated"
"""The unit of words whose numbers are settings."""


class Word(NamedTuple):
    """A piece of a line of text: words, or a figure in a short form (see `numbers.written`)."""

    content: str
    figure: Figure | None = None
    unit: str = "whole"

    @property
    def written(self) -> str:
        """The text as it is printed."""
        return self.content if self.figure is None else written(self.figure.value, self.unit)


Words: TypeAlias = tuple[Word, ...]


def line_of(*pieces: str | Figure | Words, unit: str = "whole") -> Words:
    """A line of words and figures: `line_of("q ", heads.count, " × ", heads.width)`."""
    line: list[Word] = []
    for piece in pieces:
        match piece:
            case NumberedLine():
                line.extend(line_of(*piece.parts))
            case Statement():  # also what tells a part from another
                line.append(Word(str(piece), unit=STATED))
            case str():
                line.append(Word(piece))
            case Figure():
                line.append(Word("", piece, unit))
            case _:
                line.extend(piece)
    return tuple(line)


def width_of(line: str | Words, size: str = "small") -> float:
    """The most units that a line of text takes in any of the fonts."""
    points, weight = SIZES[size]
    bold = weight >= SEMIBOLD
    content = plain_text("".join(word.written for word in line_of(line)))
    return text_width(content, points, bold=bold) + points * fsum(WIDE.get(char, 0.0) for char in content)


def text(
    x: Any,
    y: Any,
    phrase: str | Words,
    size: str = "small",
    ink: str = "ink",
    anchor: str = "start",
    title: str = "",
) -> SvgShape:
    """A line of text with its baseline at `y`; each number in it has the address of its figure."""
    pieces = line_of(phrase)
    marks = f" {STATED}" if [piece.unit for piece in pieces] == [STATED] else ""
    place = {"x": x, "y": y, "class_": f"size-{size} {ink}{marks}", "text_anchor": anchor}
    # with a tooltip the number needs an element of its own, a tspan
    if len(pieces) == 1 and not title:
        return SvgShape("text", place, content=pieces[0].written, figure=pieces[0].figure)
    inside = tuple(
        SvgShape("tspan", {"class_": STATED} if p.unit == STATED else {}, content=p.written, figure=p.figure)
        for p in pieces
    )
    return SvgShape("text", place, inside, title=title)


def rect(  # noqa: PLR0913, PLR0917 - a place, how it is filled, and what it draws
    x: Any,
    y: Any,
    width: Any,
    height: Any,
    class_: str,
    radius: float | None = None,
    figure: Figure | None = None,
    title: str = "",
) -> SvgShape:
    """A rectangle from its upper left corner."""
    place = {"x": x, "y": y, "width": width, "height": height, "rx": radius, "class_": class_}
    return SvgShape("rect", place, title=title, figure=figure)


def path(d: str, class_: str, title: str = "") -> SvgShape:
    """A path; `d` are its steps."""
    return SvgShape("path", {"d": d, "class_": class_}, title=title)
