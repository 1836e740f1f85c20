"""A multimodal model: its language model, and each tower in a column of its own beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from archcli.wings.drawing.picture.architecture.page import legend, strip
from archcli.wings.drawing.picture.architecture.page.columns import ColumnsLayout, all_bars, laid_out
from archcli.wings.drawing.picture.architecture.page.printed import steps
from archcli.wings.drawing.picture.architecture.page.sheet import BOTTOM, MARGIN, SPACE, page
from archcli.wings.drawing.picture.architecture.shapes import Many, SvgShape, svg_of
from archcli.wings.drawing.picture.architecture.style import path

if TYPE_CHECKING:
    from archcli.wings.drawing.drawn import Anatomy

LANE, ABOVE, APART = 5.0, 5.0, 4.0
"""Units of an arrow from the strip that it leads to, above all strips, and from the next tower's arrow."""


def svg(anatomy: Anatomy) -> str:
    """The drawing of a model with towers as an SVG file."""
    anatomies = (anatomy, *anatomy.towers)
    laid = laid_out(anatomies)
    # towers are no other models: nothing is marked as differing
    laid = laid._replace(columns=[column._replace(distinct=frozenset()) for column in laid.columns])
    shapes = [*laid.shapes(), *_arrows(laid)]
    shapes += legend.legend(anatomies, MARGIN, laid.end + SPACE, laid.scale)
    bars, y = all_bars(anatomies, laid.end + SPACE + legend.height(anatomies, dot=False), laid.whole)
    drawn = page(anatomy.name, iter([*shapes, *bars]), laid.whole + 2 * MARGIN, y + BOTTOM)
    return svg_of([drawn]) + "\n"


def _arrows(laid: ColumnsLayout) -> Iterator[SvgShape | Many]:
    """From each projector over the columns and down to the embedding, which the tower's vectors join."""
    first, *towers = [_ends(laid, i) for i in range(len(laid.columns))]
    x, y = first.entry
    lane = laid.columns[0].x + strip.WIDTH + LANE
    for i, tower in enumerate(towers):
        above = laid.top - ABOVE - APART * i
        middle, start = tower.exit
        side, level = lane + APART * i, y + APART * i
        route = steps("M", middle, start, "V", above, "H", side, "V", level, "H", x + 4)
        yield path(route, "edge s-line")
        yield path(steps("M", x + 6, level - 4, "L", x, level, "L", x + 6, level + 4, "Z"), "line")


def _ends(laid: ColumnsLayout, i: int) -> strip.StripEnds:
    """Where data enters and leaves the strips of a column."""
    column = laid.columns[i]
    heights = strip.heights_at(column.anatomy.strips, laid.pitch)
    return strip.ends_of(column.anatomy.strips, column.x, laid.top, heights)
