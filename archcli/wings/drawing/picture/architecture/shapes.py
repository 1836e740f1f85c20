"""Shapes of a drawing before they become SVG: tag, attributes and content."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from archcli.render.picture.elements import element, escaped
from archcli.wings.drawing.drawn import Figure


@dataclass(frozen=True)
class SvgShape:
    """An SVG element.

    tag, attributes: an attribute may be a number that depends on figures.
    inside: shapes in it.
    content: a line of text.
    title: a tooltip.
    figure: the number that it draws; its address and value become attributes.
    """

    tag: str
    attributes: dict[str, Any] = field(default_factory=dict)
    inside: tuple[SvgShape | Many, ...] = ()
    content: Any = ""
    title: str = ""
    figure: Figure | None = None


@dataclass(frozen=True)
class Many:
    """`count` equal shapes, where the count is a figure: layers, heads, experts. `shape(i)` is the i-th."""

    count: Any
    shape: Callable[[Any], SvgShape]


def svg_of(shapes: Iterable[SvgShape | Many]) -> str:
    """Shapes as SVG."""
    return "".join(map(_svg, shapes))


def attributes_of(shape: SvgShape) -> dict[str, Any]:
    """The attributes of a shape by their names in SVG, with the address of its figure."""
    # `class_` is class, as class is a keyword of Python; `marker_end` is marker-end
    attributes = {name.rstrip("_").replace("_", "-"): value for name, value in shape.attributes.items()}
    return {**attributes, **_address(shape.figure)}


def _svg(shape: SvgShape | Many) -> str:
    match shape:
        case Many():
            return element("g", svg_of(map(shape.shape, range(int(shape.count)))))
        case SvgShape():
            title = element("title", escaped(shape.title)) if shape.title else ""
            inside = title + svg_of(shape.inside) + escaped(shape.content)
            return element(shape.tag, inside, **attributes_of(shape))


def _address(figure: Figure | None) -> dict[str, Any]:
    """Attributes with the address of a figure in the JSON of a command."""
    if figure is None:
        return {}
    return {
        "data-command": figure.command,
        "data-path": figure.path,
        "data-key": figure.key,
        # all digits: other attributes are rounded to a tenth
        "data-value": repr(figure.value) if type(figure.value) is float else figure.value,
    }
