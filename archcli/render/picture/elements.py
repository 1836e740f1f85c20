"""SVG elements as strings. All text that comes from a file is escaped here."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum
from typing import Any

from archcli.errors import sanitize
from archcli.render.picture.labels import wrapped

COLOURS = {
    "contraction": "#0072b2",
    "fused_attention": "#56b4e9",
    "fused_kernels": "#7b5ea7",
    "recurrence": "#a0522d",
    "normalization": "#d55e00",
    "elementwise": "#e69f00",
    "movement": "#009e73",
    "routing": "#cc79a7",
    "random": "#b2a400",
    "waiting": "#4d4d4d",
    "framework": "#8a8a8a",
    "unattributed": "#c4c4c4",
}
"""By class: the colour-blind-safe palette of Okabe and Ito (2008); greys for time outside of operations."""
UNKNOWN = "#6a6a6a"

STYLE = """
text {
  font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", "Liberation Sans", "Noto Sans", sans-serif;
  fill: #1c1c1c;
}
.title { font-size: 18px; font-weight: 600 } .lead { font-size: 14px } .name { font-weight: 600 }
.soft { fill: #5c5c5c } .warning { fill: #b3261e; font-weight: 600 }
.mark { paint-order: stroke; stroke: #fff; stroke-width: 3px; stroke-linejoin: round }
.grid { stroke: #e6e6e6; stroke-width: 1 } .leader { stroke: #5c5c5c; stroke-width: 1 }
.roof { stroke: #1c1c1c; stroke-width: 1.5; fill: none }
.paper { fill: #fff }
@media (prefers-color-scheme: dark) {
  text { fill: #ececec } .soft { fill: #a6a6a6 } .warning { fill: #ff8a80 } .mark { stroke: #161616 }
  .grid { stroke: #333 } .leader { stroke: #a6a6a6 } .roof { stroke: #ececec }
  .paper { fill: #161616 }
}
"""
"""For light and dark backgrounds; the text on a segment of a bar has a colour of its own."""
LINE, MARGIN = 18, 24
"""Pixels from one line of text to the next, and around a drawing."""


def escaped(text: object) -> str:
    """Text escaped for an element or an attribute."""
    plain = sanitize(str(text))
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def element(name: str, inside: str = "", **attributes: Any) -> str:
    """`<name key="value">inside</name>`, numbers to a tenth.

    Underscores of attributes become dashes: `stroke_width`; a trailing one is dropped: `class_`.
    """
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{pairs}>{inside}</{name}>" if inside else f"<{name}{pairs}/>"


def drawing(shapes: Iterable[str], origin: float, width: float, height: float) -> str:
    """Shapes as an SVG whose left and upper edge are at `origin`."""
    body = "\n".join(shapes)
    return element(
        "svg",
        f"\n{body}\n",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"{origin:.0f} {origin:.0f} {width:.0f} {height:.0f}",
        width=round(width),
        height=round(height),
        role="img",
    )


def sheet(shapes: Iterable[str], width: float, height: float) -> str:
    """Shapes as an SVG file of its own with a margin, for light and dark backgrounds."""
    paper = element("rect", class_="paper", x=-MARGIN, y=-MARGIN, width="100%", height="100%")
    styled = (element("style", STYLE), paper, *shapes)
    return drawing(styled, -MARGIN, width + 2 * MARGIN, height + 2 * MARGIN)


def text(
    x: float,
    y: float,
    content: object,
    class_: str | None = None,
    anchor: str | None = None,
    **attributes: Any,
) -> str:
    """A line of text at a point; `anchor` is middle or end."""
    return element("text", escaped(content), x=x, y=y, class_=class_, text_anchor=anchor, **attributes)


def paragraph(content: str, y: float, width: float, class_: str, size: float = 12) -> tuple[list[str], float]:
    """A bold text wrapped to a width, its first baseline at `y`; and the baseline below its last line."""
    lines = list(wrapped(content, width, size, bold=True))
    shapes = [
        text(0, y + i * LINE, line, class_, style=f"font-size: {size}px") for i, line in enumerate(lines)
    ]
    return shapes, y + len(lines) * LINE


def titled(shape: str, tooltip: object) -> str:
    """A shape with a tooltip."""
    return element("g", element("title", escaped(tooltip)) + shape)


def colour(op_class: str) -> str:
    """The colour of a class; of several joined by ` + `, that of the first."""
    return COLOURS.get(op_class.split(" + ", maxsplit=1)[0], UNKNOWN)


def ink_on(ground: str) -> str:
    """Black or white, whichever has more contrast to a colour `#rrggbb`.

    That is at least 4.58 for any, by WCAG 2.2, "contrast ratio".
    """
    lightness = contrast_of(ground)
    return "#ffffff" if 1.05 / lightness > lightness / 0.05 else "#000000"


def contrast_of(ground: str) -> float:
    """The relative luminance of a colour `#rrggbb` and 0.05: quotients are contrasts by WCAG 2.2."""
    channels = [int(ground[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    # sRGB to linear light; the weights below are those of BT.709
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]  # noqa: PLR2004
    return 0.05 + fsum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _attribute(value: Any) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else escaped(value)
