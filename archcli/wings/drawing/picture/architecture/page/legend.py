"""The legend of a drawing: its scale, dashed frame, hatch and dot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archcli.wings.drawing.picture.architecture.numbers import concrete
from archcli.wings.drawing.picture.architecture.page.tints import MORE, PALE, has_tints
from archcli.wings.drawing.picture.architecture.shapes import Many, SvgShape
from archcli.wings.drawing.picture.architecture.style import rect, text, width_of

if TYPE_CHECKING:
    from archcli.wings.drawing.drawn import Anatomy

HEIGHT, ROW = 30.0, 20.0
"""Units of a line of signs, and of a further one."""
SCALED = 60.0
"""Units that the bar of the scale takes at most."""
SWATCH, GAP = 28.0, 24.0
"""Units of a sign, and between two."""


def legend(
    anatomies: Iterable[Anatomy], x: float, y: float, scale: Any, *, dot: bool = False
) -> Iterator[SvgShape | Many]:
    """The signs that a drawing has, in a line."""
    drawn, start = [*anatomies], x
    nodes = [node for anatomy in drawn for part in anatomy.parts for node in part.nodes]
    pieces = [piece for node in nodes for piece in node.pieces]
    features = _round_below(SCALED / concrete(scale))
    yield rect(x, y - 4, features * scale, 5, "ink")
    caption = f"{features:,} features: scale of bars, not of layers"
    yield text(x + features * scale + 8, y + 3, caption, ink="muted index")
    x += SCALED + 8 + width_of(caption) + GAP
    if any(node.cached for node in nodes) or any(piece.cached for piece in pieces):
        yield rect(x, y - 8, SWATCH, 13, "held s-ink", 4.0)
        yield text(x + SWATCH + 8, y + 3, "cached", ink="muted")
        x += SWATCH + 8 + width_of("cached") + GAP
    if any(piece.rotated for piece in pieces) or any(node.turned for node in nodes):
        yield rect(x, y - 6, SWATCH, 9, "solid-attention")
        yield rect(x, y - 6, SWATCH, 9, "hatched")
        yield text(x + SWATCH + 8, y + 3, "rotated by RoPE", ink="muted")
        x += SWATCH + 8 + width_of("rotated by RoPE") + GAP
    shown = next((anatomy.shown for anatomy in drawn if has_tints(anatomy)), None)
    if shown is not None:
        caption = f"stronger tint: {MORE[shown]}"
        for i, tint in enumerate((PALE, 1)):
            half = rect(x + i * SWATCH / 2, y - 8, SWATCH / 2, 13, "tint-plain")
            yield replace(half, attributes={**half.attributes, "fill_opacity": f"{tint:.2f}"})
        yield text(x + SWATCH + 8, y + 3, caption, ink="muted")
        x += SWATCH + 8 + width_of(caption) + GAP
    if dot:
        if shown is not None:
            x, y = start, y + ROW
        yield marked(x + 6, y - 1)
        yield text(x + 18, y + 3, "the first model has no such part", ink="muted")


def height(anatomies: Iterable[Anatomy], *, dot: bool) -> float:
    """Units that the signs take: the dot stands below those of tints."""
    return HEIGHT + (ROW if dot and any(map(has_tints, anatomies)) else 0.0)


def marked(x: Any, y: Any, title: str = "") -> SvgShape:
    """The dot that marks a difference."""
    return SvgShape("circle", {"cx": x, "cy": y, "r": 5, "class_": "solid-experts"}, title=title)


def _round_below(number: float) -> int:
    """The largest of 1, 2, 5, 10, 20, … that is not above."""
    power: int = 10 ** (len(str(max(1, int(number)))) - 1)
    return max(step * power for step in (1, 2, 5) if step * power <= max(number, 1))
