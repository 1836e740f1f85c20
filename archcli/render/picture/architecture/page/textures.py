"""Textures: what tells two colours apart without colour, in the strip and along the foot of bars."""

from __future__ import annotations

from archcli.render.picture.architecture.shapes import Shape
from archcli.render.picture.architecture.style import hatch

CSS = ".hatched{fill:url(#hatch)}.dotted{fill:url(#dots)}.barred{fill:url(#bars)}"


def patterns() -> tuple[Shape, ...]:
    """The definitions of all textures: diagonals, dots and upright lines in the colour of the page."""
    dot = Shape("rect", {"x": 1, "y": 1, "width": 3, "height": 2.5, "class_": "paper"})
    bar = Shape("rect", {"width": 2, "height": 8, "class_": "paper"})
    tiles = (_tile("dots", 7, 4.5, dot), _tile("bars", 6, 8, bar))
    return (hatch(), Shape("defs", {}, tiles))


def _tile(name: str, width: float, height: float, drawn: Shape) -> Shape:
    size = {"width": width, "height": height, "patternUnits": "userSpaceOnUse"}
    return Shape("pattern", {"id": name, **size}, (drawn,))
