"""A multimodal model: its language model, and each tower in a column of its own beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from archcli.wings.drawing.picture.architecture.page import joins, legend, strip
from archcli.wings.drawing.picture.architecture.page.columns import (
    ColumnsLayout,
    ModelColumn,
    all_bars,
    laid_out,
)
from archcli.wings.drawing.picture.architecture.page.printed import steps
from archcli.wings.drawing.picture.architecture.page.sheet import BOTTOM, MARGIN, SPACE, page
from archcli.wings.drawing.picture.architecture.shapes import Many, SvgShape, svg_of
from archcli.wings.drawing.picture.architecture.style import path

if TYPE_CHECKING:
    from archcli.wings.drawing.drawn import Anatomy

Point = tuple[float, float]
LANE, ABOVE, APART = 5.0, 5.0, 4.0
"""Units of an arrow from the strip that it leads to, above all strips, and from the next tower's arrow."""


def svg(anatomy: Anatomy) -> str:
    """The drawing of a model with towers as an SVG file."""
    anatomies = (anatomy, *anatomy.towers)
    laid = laid_out(anatomies)
    # towers are no other models: nothing is marked as differing
    laid = laid._replace(columns=[column._replace(distinct=frozenset()) for column in laid.columns])
    shapes = [*laid.shapes(), *_drawn(laid)]
    shapes += legend.legend(anatomies, MARGIN, laid.end + SPACE, laid.scale)
    bars, y = all_bars(anatomies, laid.end + SPACE + legend.height(anatomies, dot=False), laid.whole)
    drawn = page(anatomy.name, iter([*shapes, *bars]), laid.whole + 2 * MARGIN, y + BOTTOM)
    return svg_of([drawn]) + "\n"


def _drawn(laid: ColumnsLayout) -> Iterator[SvgShape | Many]:
    """Each line over the columns and down to the embedding, or to the layers that vectors enter."""
    lines = [line for column in laid.columns[1:] for line in _lines(laid, column)]
    side = laid.columns[0].x + strip.WIDTH + LANE
    for i, (start, (x, y), is_arrow) in enumerate(lines):
        # the further right a line starts, the higher it passes, and the further left it comes down
        lane, level = side + APART * (len(lines) - 1 - i), y + APART * i * is_arrow
        way = ("M", *start, "V", laid.top - ABOVE - APART * i, "H", lane, "V", level, "H", x + 4 * is_arrow)
        yield path(steps(*way), "edge s-line")
        if is_arrow:
            yield strip.head(x + 6, x, level)


def _lines(laid: ColumnsLayout, tower: ModelColumn) -> Iterator[tuple[Point, Point, bool]]:
    """(start, end, has a head) of the lines of a tower: from its projector, and from tapped states."""
    first, joined = laid.columns[0], tower.anatomy.strips[-1].joins
    place = first.anatomy.strips, first.x, laid.top, strip.heights_at(first.anatomy.strips, laid.pitch)
    layers = joins.inlet(*place)
    exit_ = tower.x + strip.CELLS + strip.WIDE / 2, laid.top + strip.HEADING
    yield exit_, layers if joined.crosses else strip.entry_of(*place), not joined.crosses
    if joined.tapped:
        yield joins.tap_exit(tower.x, laid.top), layers, False
