"""Lines beside a strip: vectors that enter its layers, and states that leave them, besides the stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from archcli.wings.drawing.picture.architecture.numbers import concrete
from archcli.wings.drawing.picture.architecture.page import strip as strips_drawn
from archcli.wings.drawing.picture.architecture.page.printed import lines_of, steps
from archcli.wings.drawing.picture.architecture.page.strip import (
    CELLS,
    HEADING,
    STEP,
    WIDE,
    WIDTH,
    CellColumn,
)
from archcli.wings.drawing.picture.architecture.shapes import Many, SvgShape
from archcli.wings.drawing.picture.architecture.style import LEADING, path, rect, text, width_of

if TYPE_CHECKING:
    from archcli.wings.drawing.drawn import Strip

BUS, LANE = 124.0, 5.0
"""Left edge of the line between the cells and the braces; from the strip to a line on its right."""
VEIL = 0.75
"""Opacity of what covers the layers that nothing reads."""
HEAD = 4.0
"""Half the width of an arrow's head."""
TAPS = 66.0
"""The most units of the label of the box of tapped states."""

Drawing = Iterator[SvgShape | Many]


class PlacedStrip(NamedTuple):
    """A stack with its upper edge and height."""

    strip: Strip
    top: float
    height: float


def placed(strips: Sequence[Strip], y: float, heights: Sequence[float]) -> list[PlacedStrip]:
    """The stacks from the uppermost down: an encoder stands below its decoder."""
    stacks = list[PlacedStrip]()
    for strip, height in [*zip(strips, heights, strict=True)][::-1]:
        stacks.append(PlacedStrip(strip, y, height))
        y += height + strips_drawn.SPACE
    return stacks


def column(strips: Sequence[Strip], x: float, y: float, heights: Sequence[float]) -> Drawing:
    """The stacks of layers with all lines between them."""
    yield from strips_drawn.column(strips, x, y, heights)
    stacks = placed(strips, y, heights)
    for strip, top, height in stacks:
        cells = strips_drawn.cells_at(strip, x, top, height)
        yield from _inlets(strip, cells)
        yield from _outlets(strip, cells, x, top)
    if len(stacks) > 1 and strips[-1].joins.reads:
        yield path(steps(*_passed(stacks, x)), "edge s-line")


def inlet(stack: PlacedStrip, x: float) -> tuple[float, float]:
    """Where the line to layers that vectors enter begins: below the layers, on their right."""
    below = strips_drawn.cells_at(stack.strip, x, stack.top, stack.height)
    return x + BUS, concrete(below.top + below.height) + STEP / 2


def _passed(stacks: Sequence[PlacedStrip], x: float) -> Iterator[Any]:
    """The way from an encoder's last box to the layers that read its output."""
    right, below = inlet(stacks[0], x)
    boxes, top = stacks[-1].strip.after, stacks[-1].top + HEADING
    edge, level = (
        (strips_drawn.half_of(boxes[-1]), strips_drawn.height_of(boxes[-1]) / 2) if boxes else (0, -4)
    )
    yield from ("M", x + CELLS + WIDE / 2 + edge, top + min(level, 0.0))
    yield from ("V", top + level, "H", x + WIDTH + LANE, "V", below, "H", right)


def _inlets(strip: Strip, cells: CellColumn) -> Drawing:
    """Arrows into layers that read vectors, and to the edge behind which vectors are added."""
    reads, added = strip.joins.reads, strip.joins.added
    if not reads and not added:
        return
    x = cells.x - CELLS + BUS
    heights = [*(layer + 0.5 for layer in reads), *(layer + 1 for layer in added)]
    highest: Any = max(heights)
    if len(reads) == concrete(strip.n_layers.value):
        # all of them, and of a report that is drawn anew as many as it has then
        highest = strip.n_layers.value - 0.5
        yield Many(strip.n_layers.value, partial(_into, x, cells))
    else:
        yield from (_into(x, cells, layer - 0.5) for layer in heights)
    yield path(steps("M", x, cells.top + cells.height + STEP / 2, "V", cells.above(highest)), "edge s-line")


def _into(x: float, cells: CellColumn, layer: Any) -> SvgShape:
    """The head of an arrow from the line at x to the middle of a layer."""
    level, half = cells.above(layer + 0.5), min(HEAD, 0.4 * concrete(cells.pitch))
    tip = ("L", cells.x + WIDE, level, "L", x + 0.7, level + half, "Z")
    return path(steps("M", x + 0.7, level - half, *tip), "line")


def _outlets(strip: Strip, cells: CellColumn, x: float, y: float) -> Drawing:
    """Lines from layers whose states are taken for the projector, or tapped for projectors of their own."""
    joins, line = strip.joins, x + BUS
    if joins.unread is not None:
        height = cells.above(joins.unread) - cells.top
        place = {"x": cells.x, "y": cells.top, "width": WIDE, "height": height}
        yield SvgShape("rect", {**place, "class_": "paper", "fill_opacity": VEIL}, title=joins.notes[0])
    if joins.taken:
        level = y + HEADING + strips_drawn.height_of(strip.after[-1]) / 2
        yield from _lines(joins.taken, cells, line, level)
        edge = cells.x + WIDE / 2 + strips_drawn.half_of(strip.after[-1])
        yield path(steps("M", line + 0.7, level, "H", edge + 4), "edge s-line")
        tip = ("L", edge, level, "L", edge + 6, level + HEAD, "Z")
        yield path(steps("M", edge + 6, level - HEAD, *tip), "line")
    if joins.tapped:
        line += 2.0 * bool(joins.taken)
        middle, top = tap_exit(strip, x, y)
        bottom = y + HEADING + strips_drawn.height_of(strip.after[-1])
        yield from _lines(joins.tapped, cells, line, bottom + STEP / 2)
        yield path(steps("M", line, bottom + STEP / 2, "H", middle), "edge s-line")
        yield from strips_drawn.arrow(middle, bottom + STEP / 2, bottom)
        yield from _taps(strip, middle, top, bottom - top)


def _lines(layers: Sequence[int], cells: CellColumn, x: float, end: float) -> Drawing:
    """A line from the upper edge of each layer to a common one at x, which ends at y `end`."""
    for layer in layers:
        yield path(steps("M", cells.x + WIDE, cells.above(layer + 1), "H", x), "edge s-line")
    yield path(steps("M", x, cells.above(min(layers) + 1), "V", end), "edge s-line")


def tap_exit(strip: Strip, x: float, y: float) -> tuple[float, float]:
    """(x, y) of the middle of the upper edge of the box of tapped states."""
    lines = lines_of(_label(strip), TAPS)
    top = y + HEADING + strips_drawn.height_of(strip.after[-1]) - strips_drawn.BOX - LEADING * len(lines)
    return x + BUS + (max(map(width_of, lines)) + 8) / 2, top


def _label(strip: Strip) -> str:
    return f"{len(strip.joins.tapped)} × tap projector"


def _taps(strip: Strip, middle: float, top: float, height: float) -> Drawing:
    lines = lines_of(_label(strip), TAPS)
    width = max(map(width_of, lines)) + 8
    yield rect(middle - width / 2, top, width, height, "tint-plain thin s-plain", 4.0)
    for i, line in enumerate(lines):
        yield text(middle, top + 17.5 + i * LEADING, line, anchor="middle")
