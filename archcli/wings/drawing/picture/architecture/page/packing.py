"""Where the kinds of layer and the panels stand on a page, so that all bars have one scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import fsum, inf
from typing import NamedTuple

from archcli.wings.drawing.picture.architecture.numbers import concrete
from archcli.wings.drawing.picture.architecture.panels import Drawn, common_scale

GAP = 12.0
"""Units between two boxes."""
FACTORS = (1.0, 0.85, 0.7, 0.55, 0.42, 0.3, 0.2)
"""Shares of the largest scale that are tried: with a smaller one more panels stand beside each other."""
MOST_BESIDE, MOST_TRIED = 8, 40
"""Kinds that may stand in a column, and panels of which several scales are tried."""
TALL, OVER = 1700.0, 4.0
"""The height from which on a unit costs as much as several."""
SMALL = 420.0
"""Units of height that it is worth to draw at the largest scale instead of near none."""
Edge = Callable[[float], float]
"""The left edge of the page's room at a height: beside the strip, or below it."""


class Slot(NamedTuple):
    """Where a box stands: its left upper corner, its width, and its height."""

    x: float
    y: float
    width: float
    height: float


class Packed(NamedTuple):
    """Boxes in their places, and where they end."""

    kinds: list[Slot]
    panels: list[Slot]
    bottom: float


class Room(NamedTuple):
    """Where boxes may stand: from a left edge to a right one, from the top down, and the largest scale.

    From `low` on the room is widest: a box that is too wide for what is left beside the strip stands there.
    """

    left: Edge
    right: float
    top: float
    largest: float = inf
    low: float = 0.0

    def below(self, y: float) -> Room:
        """The same room from a height on."""
        return self._replace(top=y)


def pack(kinds: Sequence[Drawn], panels: Sequence[Drawn], room: Room, column: float) -> Packed:
    """The arrangement that is lowest for its scale: kinds in a column beside the panels, or above them."""
    return _best([*_side_by_side(kinds, panels, room, column), *_above(kinds, panels, room, room.top)], room)


def stack(kinds: Sequence[Drawn], panels: Sequence[Drawn], room: Room, below: float) -> Packed:
    """Kinds in rows from the top, and the panels in rows below them and below what ends at `below`."""
    return _best([*_above(kinds, panels, room, below)], room)


def _best(tried: Sequence[tuple[float, Packed]], room: Room) -> Packed:
    """The arrangement of the least height, where a small scale costs as much as some height."""
    largest = max(scale for scale, _ in tried)

    def cost(it: tuple[float, Packed]) -> float:
        scale, packed = it
        over = max(0.0, packed.bottom - TALL)
        return packed.bottom - room.top + SMALL * (1 - scale / largest) + OVER * over

    return min(tried, key=cost)[1]


def _side_by_side(
    kinds: Sequence[Drawn], panels: Sequence[Drawn], room: Room, column: float
) -> Iterator[tuple[float, Packed]]:
    """Kinds below each other, and panels on their right; each with its scale."""
    first = room.left(room.top)
    wide = max([column, *(kind.natural(0.0)[0] for kind in kinds)])
    column_left = first + wide + GAP
    if len(kinds) > MOST_BESIDE or room.right - column_left < max(
        (panel.natural(0.0)[0] for panel in panels), default=0.0
    ):
        return
    placed, y = list[Slot](), room.top
    for kind in kinds:
        placed.append(Slot(first, y, wide, kind.height(wide)))
        y += placed[-1].height + GAP

    def left(height: float) -> float:
        return column_left if height < y else room.left(height)

    for scale, drawn, low in _tried(panels, room._replace(left=left)):
        yield scale, Packed(placed, drawn, max(y, low))


def _above(
    kinds: Sequence[Drawn], panels: Sequence[Drawn], room: Room, below: float
) -> Iterator[tuple[float, Packed]]:
    """Kinds in rows, and panels in rows below them; each with its scale."""
    placed, end = flow(kinds, 0.0, room)
    for scale, drawn, low in _tried(panels, room.below(max(end, below))):
        yield scale, Packed(placed, drawn, low)


def _tried(panels: Sequence[Drawn], room: Room) -> Iterator[tuple[float, list[Slot], float]]:
    """Panels in rows at shares of the largest scale, and where they end."""
    wide = room.right - room.left(room.top)
    scale = min(room.largest, concrete(common_scale([(panel, wide) for panel in panels])))
    for factor in FACTORS if 1 < len(panels) <= MOST_TRIED else FACTORS[:1]:
        yield scale * factor, *flow(panels, scale * factor, room)


def flow(boxes: Sequence[Drawn], scale: float, room: Room) -> tuple[list[Slot], float]:
    """Boxes in rows, in their order; each row is as wide as its room, and as high as its highest box."""
    places, y = list[Slot](), room.top
    natural = [(box, box.natural(scale)[0]) for box in boxes]
    while natural:
        if natural[0][1] > room.right - room.left(y):
            y = max(y, room.low)
        x, taken = room.left(y), 1
        while taken < len(natural) and _fits(natural[: taken + 1], room.right - x):
            taken += 1
        row, natural = natural[:taken], natural[taken:]
        spare = (room.right - x - GAP * (taken - 1) - fsum(width for _, width in row)) / taken
        height = max(box.height(width + spare) for box, width in row)
        for _, width in row:
            places.append(Slot(x, y, width + spare, height))
            x += width + spare + GAP
        y += height + GAP
    return places, y


def _fits(row: Sequence[tuple[Drawn, float]], room: float) -> bool:
    return fsum(width for _, width in row) + GAP * (len(row) - 1) <= room
