"""A multimodal model: its language model, and each tower in a column of its own beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from archcli.wings.drawing.picture.architecture.page import joins, legend, strip
from archcli.wings.drawing.picture.architecture.page.columns import ColumnsLayout, all_bars, laid_out
from archcli.wings.drawing.picture.architecture.page.printed import steps
from archcli.wings.drawing.picture.architecture.page.sheet import BOTTOM, MARGIN, SPACE, page
from archcli.wings.drawing.picture.architecture.shapes import Many, SvgShape, svg_of
from archcli.wings.drawing.picture.architecture.style import path

if TYPE_CHECKING:
    from archcli.wings.drawing.drawn import Anatomy

LANE, ABOVE, APART = 5.0, 5.0, 4.0
"""Units of an arrow from the strip that it leads to, above all strips, and from the next tower's arrow."""


class TowerLine(NamedTuple):
    """A line from a tower: where it leaves, and where it ends: at a box's edge, or below layers."""

    start: tuple[float, float]
    end: tuple[float, float]
    is_arrow: bool


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
    lines = [line for i in range(1, len(laid.columns)) for line in _lines(laid, i)]
    side = laid.columns[0].x + strip.WIDTH + LANE
    for i, (start, (x, y), is_arrow) in enumerate(lines):
        # the further right a line starts, the higher it passes, and the further left it comes down
        lane, level = side + APART * (len(lines) - 1 - i), y + APART * i * is_arrow
        above = laid.top - ABOVE - APART * i
        route = steps("M", *start, "V", above, "H", lane, "V", level, "H", x + 4 * is_arrow)
        yield path(route, "edge s-line")
        if is_arrow:
            yield path(steps("M", x + 6, level - 4, "L", x, level, "L", x + 6, level + 4, "Z"), "line")


def _lines(laid: ColumnsLayout, i: int) -> Iterator[TowerLine]:
    """The lines of a tower: from its projector, and from those of tapped states."""
    first, tower = laid.columns[0], laid.columns[i]
    last = tower.anatomy.strips[-1]
    (stack, *_), (_, exit_) = joins.placed(first.anatomy.strips, laid.top, _heights(laid, 0)), _ends(laid, i)
    layers = joins.inlet(stack, first.x)
    is_read = last.joins.crosses
    yield TowerLine(exit_, layers if is_read else _ends(laid, 0).entry, not is_read)
    if last.joins.tapped:
        yield TowerLine(joins.tap_exit(last, tower.x, laid.top), layers, is_arrow=False)


def _heights(laid: ColumnsLayout, i: int) -> list[float]:
    return strip.heights_at(laid.columns[i].anatomy.strips, laid.pitch)


def _ends(laid: ColumnsLayout, i: int) -> strip.StripEnds:
    """Where data enters and leaves the strips of a column."""
    column = laid.columns[i]
    return strip.ends_of(column.anatomy.strips, column.x, laid.top, _heights(laid, i))
