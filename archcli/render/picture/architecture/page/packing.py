"""Where the kinds of layer and the panels stand on a page, and the one scale of all their bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from archcli.render.picture.architecture.numbers import concrete, least

GAP = 12.0
"""Units between two boxes."""
FACTORS = (1.0, 0.85, 0.7, 0.55, 0.42, 0.3)
"""Shares of the largest scale that are tried: with a smaller one more panels stand beside each other."""
SMALL = 260.0
"""Units of height that it is worth to draw at the largest scale instead of near none."""


class Sized(Protocol):
    """Something that is drawn: a panel or a kind of layer."""

    @property
    def widest(self) -> Sequence[tuple[Any, float]]:
        """The features and the fixed units of each rank."""

    def natural(self, scale: float) -> tuple[float, float]:
        """The least width, and the height."""


class Place(NamedTuple):
    """Where a box stands: its left upper corner, its width, and its height."""

    x: float
    y: float
    width: float
    height: float


Edge = Callable[[float], float]
"""The left edge of the page's room at a height: beside the strip, or below it."""


class Packed(NamedTuple):
    """Boxes in their places, and where they end."""

    kinds: list[Place]
    panels: list[Place]
    bottom: float


def flow(sizes: Sequence[tuple[float, float]], left: Edge, right: float, top: float) -> tuple[list[Place], float]:
    """Boxes in rows, in their order; each row is as wide as its room, and as high as its highest box."""
    places, y = list[Place](), top
    for row in _rows(sizes, left, right, top):
        x, height = left(y), max(size[1] for size in row)
        room = right - x - GAP * (len(row) - 1)
        spare = (room - sum(size[0] for size in row)) / len(row)
        for width, _ in row:
            places.append(Place(x, y, width + spare, height))
            x += width + spare + GAP
        y += height + GAP
    return places, y


def _rows(
    sizes: Sequence[tuple[float, float]], left: Edge, right: float, top: float
) -> Iterator[list[tuple[float, float]]]:
    row, y = list[tuple[float, float]](), top
    for size in sizes:
        if row and sum(width + GAP for width, _ in row) + size[0] > right - left(y):
            yield row
            y += max(height for _, height in row) + GAP
            row = []
        row.append(size)
    if row:
        yield row


def columns(sizes: Sequence[tuple[float, float]], x: float, width: float, top: float) -> tuple[list[Place], float]:
    """Boxes below each other."""
    places = list[Place]()
    for _, height in sizes:
        places.append(Place(x, top, width, height))
        top += height + GAP
    return places, top


def room_scale(panels: Sequence[Sized], widths: Sequence[float]) -> Any:
    """The largest scale at which every rank of every panel fits into its panel: units of a feature."""
    ranks = [
        (width - fixed) / features
        for panel, width in zip(panels, widths, strict=True)
        for features, fixed in panel.widest
        if concrete(features) > 0
    ]
    return least(*ranks) if len(ranks) > 1 else ranks[0] if ranks else 1.0


def pack(  # noqa: PLR0913, PLR0917 - what is placed, and the page's edges
    kinds: Sequence[Sized],
    panels: Sequence[Sized],
    left: Edge,
    right: float,
    top: float,
    column: float,
) -> Packed:
    """The arrangement that is lowest for its scale: kinds in a column beside the panels, or above them."""
    tried = [
        (_cost(packed, factor, top), packed)
        for factor in FACTORS
        for packed in _arranged(kinds, panels, left, right, top, column, factor)
    ]
    return min(tried, key=lambda it: it[0])[1]


def _cost(packed: Packed, factor: float, top: float) -> float:
    return packed.bottom - top + SMALL * (1 - factor)


def _arranged(  # noqa: PLR0913, PLR0917 - see pack
    kinds: Sequence[Sized],
    panels: Sequence[Sized],
    left: Edge,
    right: float,
    top: float,
    column: float,
    factor: float,
) -> Iterator[Packed]:
    # in a column, which ends before the panels begin
    wide = max([column, *(kind.natural(0.0)[0] for kind in kinds)])
    sizes = [kind.natural(0.0) for kind in kinds]
    beside = left(top) + wide + GAP
    if right - beside >= max((panel.natural(0.0)[0] for panel in panels), default=0.0):
        placed, end = columns(sizes, left(top), wide, top)
        drawn, low = _panels(panels, lambda y: beside if y < end else left(y), right, top, factor)
        yield Packed(placed, drawn, max(end, low))
    placed, end = flow(sizes, left, right, top)
    drawn, low = _panels(panels, left, right, end, factor)
    yield Packed(placed, drawn, low)


def _panels(
    panels: Sequence[Sized], left: Edge, right: float, top: float, factor: float
) -> tuple[list[Place], float]:
    """Panels in rows at a share of the largest scale."""
    scale = concrete(room_scale(panels, [right - left(top)] * len(panels))) * factor
    return flow([panel.natural(scale) for panel in panels], left, right, top)
