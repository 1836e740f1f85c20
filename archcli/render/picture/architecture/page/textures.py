"""Textures: what tells two colours apart without colour, along the foot of bars."""

from __future__ import annotations

from archcli.render.picture.architecture.shapes import Shape

CSS = ".dotted{fill:url(#dots)}.barred{fill:url(#bars)}.over{fill:#0B0E12}"


def textures() -> Shape:
    """The definitions of dots and upright lines in the colour of the page."""
    dot = Shape("rect", {"x": 1, "y": 1, "width": 3, "height": 2.5, "class_": "paper"})
    bar = Shape("rect", {"width": 2, "height": 8, "class_": "paper"})
    return Shape("defs", {}, (_tile("dots", 7, 4.5, dot), _tile("bars", 6, 8, bar)))


def _tile(name: str, width: float, height: float, drawn: Shape) -> Shape:
    size = {"width": width, "height": height, "patternUnits": "userSpaceOnUse"}
    return Shape("pattern", {"id": name, **size}, (drawn,))
