"""Lines beside a strip: vectors that enter its layers, and states that leave them, besides the stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from archcli.wings.drawing.picture.architecture.numbers import concrete
from archcli.wings.drawing.picture.architecture.page import strip as stacks
from archcli.wings.drawing.picture.architecture.page.printed import steps
from archcli.wings.drawing.picture.architecture.page.strip import CELLS, HEADING, STEP, WIDE, WIDTH, Drawing
from archcli.wings.drawing.picture.architecture.shapes import Many, SvgShape
from archcli.wings.drawing.picture.architecture.style import path, rect, text

if TYPE_CHECKING:
    from archcli.wings.drawing.drawn import Strip
    from archcli.wings.drawing.picture.architecture.page.strip import CellColumn, Placed

BUS, LANE = 124.0, 5.0
"""Left edge of the line between the cells and the braces; from the strip to a line on its right."""
TAPS = 62.0
"""Units of the width of the box of tapped states."""
VEIL = 0.75
"""Opacity of what covers the layers that nothing reads."""


def column(strips: Sequence[Strip], x: float, y: float, heights: Sequence[float]) -> Drawing:
    """The stacks of layers with all lines between them."""
    yield from stacks.column(strips, x, y, heights)
    placed = stacks.placed(strips, y, heights)
    for strip, top, height in placed:
        cells = stacks.cells_at(strip, x, top, height)
        yield from _inlets(strip, cells)
        yield from _outlets(strip, cells, x, top)
    if len(placed) > 1 and strips[-1].joins.reads:
        yield path(steps(*_passed(placed[-1], x, inlet(strips, x, y, heights))), "edge s-line")


def inlet(strips: Sequence[Strip], x: float, y: float, heights: Sequence[float]) -> tuple[float, float]:
    """Where the line to layers that vectors enter begins: below the layers, on their right."""
    strip, top, height = stacks.placed(strips, y, heights)[0]
    cells = stacks.cells_at(strip, x, top, height)
    return x + BUS, cells.top + cells.height + STEP / 2


def _passed(placed: Placed, x: float, end: tuple[float, float]) -> Iterator[Any]:
    """The way from an encoder's last box to the layers that read its output."""
    (encoder, top, _), (right, below) = placed, end
    boxes, start = encoder.after, top + HEADING
    level = start + (stacks.height_of(boxes[-1]) / 2 if boxes else -4)
    yield from ("M", x + CELLS + WIDE / 2 + (stacks.half_of(boxes[-1]) if boxes else 0), min(level, start))
    yield from ("V", level, "H", x + WIDTH + LANE, "V", below, "H", right)


def _inlets(strip: Strip, cells: CellColumn) -> Drawing:
    """Arrows into layers that read vectors, and to the edge behind which vectors are added."""
    reads, added = strip.joins.reads, strip.joins.added
    if not reads and not added:
        return
    x, heights = cells.x - CELLS + BUS, [*(layer + 0.5 for layer in reads), *(layer + 1.0 for layer in added)]
    highest: Any = max(heights)
    if len(reads) == concrete(strip.n_layers.value):
        # all of them, and of a report that is drawn anew as many as it has then
        highest = strip.n_layers.value - 0.5
        yield Many(strip.n_layers.value, lambda layer: _into(x, cells, layer + 0.5))
    else:
        yield from map(partial(_into, x, cells), heights)
    yield path(steps("M", x, cells.top + cells.height + STEP / 2, "V", cells.above(highest)), "edge s-line")


def _into(x: float, cells: CellColumn, layers: Any) -> SvgShape:
    """The head of an arrow from the line at x into the cells, above so many layers."""
    return stacks.head(x + 0.7, cells.x + WIDE, cells.above(layers), min(4.0, 0.4 * concrete(cells.pitch)))


def _outlets(strip: Strip, cells: CellColumn, x: float, y: float) -> Drawing:
    """Lines from layers whose states are taken for the projector, or tapped for projectors of their own."""
    joins, line, top = strip.joins, x + BUS, y + HEADING
    if joins.unread is not None:
        place = {"x": cells.x, "y": cells.top, "width": WIDE, "height": cells.above(joins.unread) - cells.top}
        yield SvgShape("rect", {**place, "class_": "paper", "fill_opacity": VEIL}, title=joins.notes[0])
    if joins.taken:
        level = top + stacks.height_of(strip.after[-1]) / 2
        yield from _leaving(joins.taken, cells, line, level)
        yield stacks.head(line + 1, cells.x + WIDE / 2 + stacks.half_of(strip.after[-1]), level)
    if joins.tapped:
        line, (middle, _), height = line + 2.0 * bool(joins.taken), tap_exit(x, y), stacks.height_of("")
        below = top + height + STEP / 2
        yield from _leaving(joins.tapped, cells, line, below)
        yield path(steps("M", line, below, "H", middle), "edge s-line")
        yield from stacks.arrow(middle, below, top + height)
        yield rect(middle - TAPS / 2, top, TAPS, height, "tint-plain thin s-plain", 4.0)
        yield text(middle, top + 17.5, f"{len(joins.tapped)} taps", anchor="middle")


def _leaving(layers: Sequence[int], cells: CellColumn, x: float, end: float) -> Drawing:
    """A line from the upper edge of each layer to a common one at x, which ends at y `end`."""
    for layer in layers:
        yield path(steps("M", cells.x + WIDE, cells.above(layer + 1), "H", x), "edge s-line")
    yield path(steps("M", x, cells.above(min(layers) + 1), "V", end), "edge s-line")


def tap_exit(x: float, y: float) -> tuple[float, float]:
    """(x, y) of the middle of the upper edge of the box of tapped states."""
    return x + BUS + 4 + TAPS / 2, y + HEADING
