"""Shapes of a drawing, before they are SVG: a tag, its attributes, and what stands inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from archcli.measure.survey.anatomy.records import Figure
from archcli.render.picture.elements import element, escaped


@dataclass(frozen=True)
class Shape:
    """An SVG element. `figure` is the number that it draws: its address and value stand in its attributes.

    An attribute may be a number that depends on figures. `title` is a tooltip, `content` a line of text.
    """

    tag: str
    attributes: dict[str, Any] = field(default_factory=dict)
    inside: tuple[Shape | Many, ...] = ()
    content: Any = ""
    title: str = ""
    figure: Figure | None = None


@dataclass(frozen=True)
class Many:
    """As many like shapes as a figure says: layers, heads, experts. `shape(i)` is the i-th."""

    count: Any
    shape: Callable[[Any], Shape]


def svg_of(shapes: Iterable[Shape | Many]) -> str:
    """Shapes as SVG."""
    return "".join(map(_svg, shapes))


def _svg(shape: Shape | Many) -> str:
    if isinstance(shape, Many):
        return svg_of(shape.shape(i) for i in range(int(shape.count)))
    inside = svg_of(shape.inside) + escaped(shape.content)
    if shape.title:
        inside = element("title", escaped(shape.title)) + inside
    return element(shape.tag, inside, **shape.attributes, **_address(shape.figure))


def _address(figure: Figure | None) -> dict[str, Any]:
    """Where the JSON of a command has the number that is drawn."""
    if figure is None:
        return {}
    return {
        "data_command": figure.command,
        "data_path": figure.path,
        "data_key": figure.key,
        "data_value": figure.value,
    }
