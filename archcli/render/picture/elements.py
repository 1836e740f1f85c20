"""SVG elements as strings. All text that comes from a file is escaped here."""

from __future__ import annotations

from typing import Any

from archcli.wording import sanitize

COLOURS = {
    "contraction": "#0072b2",
    "fused_attention": "#56b4e9",
    "fused_kernels": "#7b5ea7",
    "normalization": "#d55e00",
    "elementwise": "#e69f00",
    "movement": "#009e73",
    "routing": "#cc79a7",
    "random": "#b2a400",
    "framework": "#8a8a8a",
    "unattributed": "#c4c4c4",
}
"""By class: the colour-blind-safe palette of Okabe and Ito (2008); greys for time outside of operations."""
UNKNOWN = "#6a6a6a"

STYLE = """
text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1c1c1c }
.title { font-size: 16px; font-weight: 600 } .soft { fill: #5c5c5c } .on { fill: #fff; font-size: 11px }
.grid { stroke: #e6e6e6; stroke-width: 1 } .roof { stroke: #1c1c1c; stroke-width: 1.5; fill: none }
.paper { fill: #fff }
@media (prefers-color-scheme: dark) {
  text { fill: #ececec } .soft { fill: #a6a6a6 } .on { fill: #fff } .grid { stroke: #333 }
  .roof { stroke: #ececec }
  .paper { fill: #161616 }
}
"""


def escaped(text: object) -> str:
    """Text that is safe within an element and within an attribute."""
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


def text(
    x: float,
    y: float,
    content: object,
    class_: str | None = None,
    anchor: str | None = None,
    turned: float = 0.0,
) -> str:
    """A line of text at a point. `anchor` is middle or end; `turned` rotates it, in degrees."""
    turn = f"rotate({turned:.1f} {x:.1f} {y:.1f})" if turned else None
    return element("text", escaped(content), x=x, y=y, class_=class_, text_anchor=anchor, transform=turn)


def titled(shape: str, tooltip: object) -> str:
    """A shape with a tooltip."""
    return element("g", element("title", escaped(tooltip)) + shape)


def colour(op_class: str) -> str:
    """The colour of a class; of several joined by ` + `, that of the first."""
    return COLOURS.get(op_class.split(" + ", maxsplit=1)[0], UNKNOWN)


def _attribute(value: Any) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else escaped(value)
