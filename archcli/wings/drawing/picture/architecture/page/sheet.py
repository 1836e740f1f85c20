"""A drawing of one architecture: its head, the strip of layers, the kinds, the panels, and the foot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from archcli.wings.drawing.picture.architecture.page import foot, header, joins, legend, strip
from archcli.wings.drawing.picture.architecture.page.boxes import kind_boxes, part_boxes
from archcli.wings.drawing.picture.architecture.page.packing import GAP, Packed, Room, pack
from archcli.wings.drawing.picture.architecture.panels import Drawn, common_scale
from archcli.wings.drawing.picture.architecture.redraw import Redraw, Redrawn
from archcli.wings.drawing.picture.architecture.shapes import Many, SvgShape, svg_of
from archcli.wings.drawing.picture.architecture.style import css, definitions, rect, text
from archcli.wings.drawing.picture.architecture.textures import CSS, textures

if TYPE_CHECKING:
    from archcli.wings.drawing.drawn import Anatomy

PAGE, MARGIN = 1000.0, 24.0
PAGES, TALLEST = (PAGE, 1200.0, 1400.0, 1600.0), 2000.0
"""Widths of a page that are tried in turn until it is no higher than so many units."""
KINDS = 216.0
"""Units of the column of kinds."""
HEADING = 24.0
LOWEST = (1100.0, 800.0, 600.0)
"""The strip grows as high as what stands beside it, up to one of these or to what it needs itself."""
SPACE, BOTTOM = 20.0, 14.0
"""Units between sections, and below the foot."""
Drawing = Iterator[SvgShape | Many]
NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")


class Sheet(NamedTuple):
    """A placed drawing: its shapes, their positions, and the height of the page."""

    anatomy: Anatomy
    kinds: Sequence[Drawn]
    panels: Sequence[Drawn]
    packed: Packed
    width: float
    top: float
    strips: float
    end: float

    @property
    def foot(self) -> float:
        """Where the foot begins."""
        return self.end + SPACE + (legend.HEIGHT if self.panels else 0.0)

    @property
    def height(self) -> float:
        """Units of the page."""
        return self.foot + foot.height(self.anatomy, self.width - 2 * MARGIN) + BOTTOM


def sheet(anatomy: Anatomy) -> Sheet:
    """Place everything on the narrowest page on which it is no higher than TALLEST, else on the lowest."""
    kinds, panels = kind_boxes(anatomy), part_boxes(anatomy)
    least = max([0.0, *(box.natural(0.0)[0] + 2 * MARGIN for box in (*kinds, *panels))])
    tried = list[Sheet]()
    for page_width in PAGES:
        tried.append(_placed(anatomy, kinds, panels, max(page_width, least)))
        if tried[-1].height <= TALLEST:
            return tried[-1]
    return min(tried, key=lambda placed: placed.height)


def _placed(anatomy: Anatomy, kinds: Sequence[Drawn], panels: Sequence[Drawn], width: float) -> Sheet:
    """Everything in its place on a page of a width."""
    top = header.height(anatomy, width - 2 * MARGIN) + 12
    needed = strip.column_height(anatomy.strips)
    packed, below = _packed(anatomy, kinds, panels, width, top)
    # what ends beside the strip has one foot with it
    strips = max(needed, min(packed.bottom, below) - top)
    return Sheet(anatomy, kinds, panels, packed, width, top, strips, max(top + strips, packed.bottom))


def _packed(
    anatomy: Anatomy, kinds: Sequence[Drawn], panels: Sequence[Drawn], width: float, top: float
) -> tuple[Packed, float]:
    """The boxes in their places beside the strip and below it, and where that may end."""
    right_of_strip = MARGIN + strip.WIDTH + GAP if anatomy.strips else MARGIN
    needed = strip.column_height(anatomy.strips)
    tried = list[tuple[Packed, float]]()
    for lowest in LOWEST:
        below = top + max(needed, lowest)
        room = Room(partial(_left, right_of_strip, below), width - MARGIN, top + HEADING, low=below)
        tried.append((pack(kinds, panels, room, KINDS), below))
        # all stands beside the strip: a shorter one would leave room below it
        if tried[-1][0].bottom <= below:
            break
    return min(tried, key=lambda it: max(it[0].bottom, it[1]))


def _left(right_of_strip: float, below: float, y: float) -> float:
    """The left edge of the boxes' room: right of the strip, or that of the page below it."""
    return right_of_strip if y < below else MARGIN


def svg(anatomy: Anatomy) -> str:
    """The drawing of one model as an SVG file, for light and dark backgrounds."""
    return svg_of([drawn(anatomy)]) + "\n"


def drawn(anatomy: Anatomy) -> SvgShape:
    """The drawing of one model, as one shape."""
    placed = sheet(anatomy)
    return page(anatomy.name, shapes(placed), placed.width, placed.height)


def redrawn(anatomy: Anatomy) -> Redrawn:
    """The drawing of one model, and the script that draws it anew for other figures."""
    redraw = Redraw()
    svg = redraw.svg([drawn(redraw.traced(anatomy))])
    return Redrawn(svg, redraw.script(), tuple(redraw.figures.values()))


def page(name: str, drawn: Iterator[SvgShape | Many], width: float, height: float) -> SvgShape:
    """Shapes as the one shape of an SVG file."""
    ground = rect(0, 0, width, round(height), "paper")
    inside = (
        SvgShape("style", content=f"{css()}{CSS}".replace("\n", "")),
        definitions(),
        textures(),
        ground,
        *drawn,
    )
    attributes = {
        "xmlns": "http://www.w3.org/2000/svg",
        "viewBox": f"0 0 {width:.0f} {height:.0f}",
        "width": round(width),
        "height": round(height),
        "role": "img",
    }
    return SvgShape("svg", attributes, inside, title=f"{name}: architecture")


def shapes(placed: Sheet) -> Drawing:
    """Everything on a page."""
    anatomy = placed.anatomy
    yield from header.shapes(anatomy, MARGIN, placed.width - 2 * MARGIN)
    heights = strip.heights_at(anatomy.strips, strip.pitch_of(anatomy.strips, placed.strips))
    yield from joins.column(anatomy.strips, MARGIN, placed.top, heights)
    rooms = [place.width for place in placed.packed.panels]
    scale = common_scale(zip(placed.panels, rooms, strict=True))
    if placed.kinds:
        first = placed.packed.kinds[0]
        yield text(first.x, first.y - HEADING + 14, kinds_title(len(placed.kinds)), "head")
    boxes, places = (*placed.kinds, *placed.panels), (*placed.packed.kinds, *placed.packed.panels)
    for drawn, place in zip(boxes, places, strict=True):
        yield from drawn.shapes(place.x, place.y, place.width, scale, place.height)
    if placed.panels:
        yield from legend.legend([anatomy], MARGIN, placed.end + SPACE, scale)
    yield from foot.shapes(anatomy, MARGIN, placed.foot, placed.width - 2 * MARGIN)


def kinds_title(count: int) -> str:
    """A heading: how many distinct kinds of layer there are."""
    number = NUMBERS[count] if count < len(NUMBERS) else f"{count:,}"
    return f"{number} kind{'s' if count != 1 else ''} of layer"
