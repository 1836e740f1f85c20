"""Textures: what tells two colours apart without colour, along the foot of bars."""

from __future__ import annotations

from archcli.wings.drawing.picture.architecture.shapes import SvgShape

CSS = ".dotted{fill:url(#dots)}.barred{fill:url(#bars)}.over{fill:#0B0E12}"


def textures() -> SvgShape:
    """The definitions of dots and upright lines in the colour of the page."""
    dot = SvgShape("rect", {"x": 1, "y": 1, "width": 3, "height": 2.5, "class_": "paper"})
    bar = SvgShape("rect", {"width": 2, "height": 8, "class_": "paper"})
    return SvgShape("defs", {}, (_tile("dots", 7, 4.5, dot), _tile("bars", 6, 8, bar)))


def _tile(name: str, width: float, height: float, drawn: SvgShape) -> SvgShape:
    size = {"width": width, "height": height, "patternUnits": "userSpaceOnUse"}
    return SvgShape("pattern", {"id": name, **size}, (drawn,))
