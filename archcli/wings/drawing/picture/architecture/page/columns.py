"""Two to four architectures as columns on one scale, with differences marked and listed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from archcli.wings.drawing.picture.architecture.numbers import concrete, most
from archcli.wings.drawing.picture.architecture.page import foot, header, joins, legend, strip
from archcli.wings.drawing.picture.architecture.page.boxes import kind_boxes, part_boxes
from archcli.wings.drawing.picture.architecture.page.packing import GAP, Packed, Room, Slot, stack
from archcli.wings.drawing.picture.architecture.page.printed import cut, number, words_of
from archcli.wings.drawing.picture.architecture.page.sheet import (
    BOTTOM,
    HEADING,
    MARGIN,
    PAGES,
    SPACE,
    kinds_title,
    page,
)
from archcli.wings.drawing.picture.architecture.panels import Drawn, common_scale
from archcli.wings.drawing.picture.architecture.shapes import Many, SvgShape, svg_of
from archcli.wings.drawing.picture.architecture.style import LEADING, Word, path, rect, text, width_of

if TYPE_CHECKING:
    from archcli.measure.survey.compare.differences import Difference
    from archcli.wings.drawing.drawn import Anatomy, DrawnNode, DrawnPart, Kind

GUTTER, ROOMY = 28.0, 90.0
"""Units between two columns; the least units for the bars of the widest rank of a box."""
LOW = 1750.0
"""The height of columns up to which a page is not made wider."""
TALL = 430.0
"""The least height of the strips."""
MOST_WORDS = 16
"""The most differences that are listed; of the rest the number is shown."""
CHIP = 11.0
"""Side of a colour sample."""
Drawing = Iterator[SvgShape | Many]


class ModelColumn(NamedTuple):
    """A model in its column.

    kinds, panels: boxes of its kinds of layer, and of its parts.
    distinct: names of boxes that the first model lacks.
    x, packed: places of the column and of the boxes.
    """

    anatomy: Anatomy
    kinds: Sequence[Drawn]
    panels: Sequence[Drawn]
    distinct: frozenset[str]
    x: float
    packed: Packed


class ColumnsLayout(NamedTuple):
    """Models in their columns.

    width, whole: of a column, and of all.
    top, end: y of the strips, and of the end of all columns.
    pitch: units of a layer in a strip.
    scale: of all bars.
    """

    columns: Sequence[ModelColumn]
    width: float
    whole: float
    top: float
    pitch: float
    scale: Any
    end: float

    def shapes(self) -> list[SvgShape | Many]:
        """Everything in the columns."""
        return [_model(column, self.width, self.top, self.pitch, self.scale) for column in self.columns]


def laid_out(anatomies: Sequence[Anatomy], first: Anatomy | None = None) -> ColumnsLayout:
    """Models beside each other on the narrowest page that is not too high, compared with the `first`."""
    drawn = [(kind_boxes(anatomy), part_boxes(anatomy, first)) for anatomy in anatomies]
    tried = list[ColumnsLayout]()
    for page_width in PAGES:
        tried.append(_laid_out(anatomies, drawn, _column_width(drawn, page_width)))
        if tried[-1].end <= LOW:
            return tried[-1]
    return min(tried, key=lambda laid: laid.end)


def _laid_out(
    anatomies: Sequence[Anatomy], drawn: Sequence[tuple[Sequence[Drawn], Sequence[Drawn]]], width: float
) -> ColumnsLayout:
    """The layout with columns of a width."""
    whole = len(anatomies) * (width + GUTTER) - GUTTER
    top = max(header.height(anatomy, width, keys_right=False) for anatomy in anatomies) + 12
    strips = max(_strips_height(anatomy) for anatomy in anatomies)
    pitch = min(strip.pitch_of(anatomy.strips, strips) for anatomy in anatomies)
    placed = _placed(anatomies, drawn, width, top, strips)
    end = max([top + strips, *(column.packed.bottom for column in placed)])
    rooms = [
        (box, place.width)
        for column in placed
        for box, place in zip(column.panels, column.packed.panels, strict=True)
    ]
    return ColumnsLayout(placed, width, whole, top, pitch, common_scale(rooms), end)


def svg(anatomies: Sequence[Anatomy], differences: Sequence[Difference]) -> str:
    """The drawing of several models as an SVG file."""
    laid = laid_out(anatomies, anatomies[0])
    dot = any(column.distinct for column in laid.columns)
    shapes, end = laid.shapes(), laid.end
    for column in (it for it in laid.columns if it.anatomy.shares or it.anatomy.foot):
        # right under each column: a short one leaves no room empty
        low = max(laid.top + sum(strip.heights_at(column.anatomy.strips, laid.pitch)), column.packed.bottom)
        whole = most_stored(anatomies)
        scale = laid.width / whole if concrete(whole) else 0.0
        bars, y = _bars_of(column.anatomy, column.x, low + SPACE, laid.width, scale)
        shapes.append(_of(column.anatomy, bars))
        end = max(end, y)
    shapes += legend.legend(anatomies, MARGIN, end + SPACE, laid.scale, dot=dot)
    y = end + SPACE + legend.height(anatomies, dot=dot)
    lines, bottom = _differences(anatomies, differences, y, laid.whole)
    name = ", ".join(anatomy.name for anatomy in anatomies)
    return svg_of([page(name, iter([*shapes, *lines]), laid.whole + 2 * MARGIN, bottom + BOTTOM)]) + "\n"


def _column_width(drawn: Sequence[tuple[Sequence[Drawn], Sequence[Drawn]]], page_width: float) -> float:
    """The width of each column: an equal part of the page, or what the widest box needs."""
    part = (page_width - 2 * MARGIN - GUTTER * (len(drawn) - 1)) / len(drawn)
    least = (box.natural(0.0)[0] + ROOMY for kinds, panels in drawn for box in (*kinds, *panels))
    return max([part, strip.WIDTH, *least])


def _strips_height(anatomy: Anatomy) -> float:
    return max(TALL, strip.column_height(anatomy.strips))


def _placed(
    anatomies: Sequence[Anatomy],
    drawn: Sequence[tuple[Sequence[Drawn], Sequence[Drawn]]],
    width: float,
    top: float,
    strips: float,
) -> list[ModelColumn]:
    """The columns, at one scale: the largest at which each fits."""
    widest = max((kind.natural(0.0)[0] for kinds, _ in drawn for kind in kinds), default=0.0)
    is_beside = width - strip.WIDTH - GAP >= widest
    largest = min(
        (concrete(common_scale([(it, width) for it in panels])) for _, panels in drawn if panels), default=inf
    )
    columns = list[ModelColumn]()
    for i, (anatomy, (kinds, panels)) in enumerate(zip(anatomies, drawn, strict=True)):
        x = MARGIN + i * (width + GUTTER)
        inner = x + strip.WIDTH + GAP
        below = top + strips + SPACE

        def left(y: float, x: float = x, inner: float = inner, below: float = below) -> float:
            return inner if is_beside and y < below - SPACE else x

        start = top + HEADING if is_beside else below + HEADING
        room = Room(left, x + width, start, largest)
        packed = stack(kinds, panels, room, below)
        if packed.bottom > LOW:  # begin beside the strip, where there is room
            packed = min(packed, stack(kinds, panels, room, 0.0), key=lambda rows: rows.bottom)
        columns.append(ModelColumn(anatomy, kinds, panels, _distinct(anatomies, i), x, packed))
    return columns


def _distinct(anatomies: Sequence[Anatomy], i: int) -> frozenset[str]:
    """The letters of parts and the paths of kinds that the first model lacks."""
    first = _looks(anatomies[0])
    return frozenset(name for look, name in _looks(anatomies[i]).items() if look not in first)


def _looks(anatomy: Anatomy) -> dict[Any, str]:
    """The name of each part and kind by its look: title, lines and nodes, without letter and place."""
    parts = {part.letter: _look_of(part) for part in anatomy.parts}
    looks: dict[Any, str] = {look: letter for letter, look in parts.items()}
    for kind in anatomy.kinds:
        looks[_kind_look(kind, parts)] = kind.path
    return looks


def _look_of(part: DrawnPart) -> Any:
    return part.title, part.lines, tuple(map(_node_look, part.nodes))


def _kind_look(kind: Kind, parts: dict[str, Any]) -> Any:
    return tuple((node.role, parts.get(node.letter, node.label)) for node in kind.nodes)


def _node_look(node: DrawnNode) -> Any:
    return node.role, node.label, node.width.value if node.width else None


def _of(anatomy: Anatomy, shapes: Iterable[SvgShape | Many]) -> SvgShape:
    """A group of the shapes of a model, with its name as `data-model`."""
    return SvgShape("g", {"data_model": anatomy.name}, tuple(shapes))


def _model(column: ModelColumn, width: float, top: float, pitch: float, scale: Any) -> SvgShape:
    """All of a model's column."""
    return _of(column.anatomy, [*_column(column, width, top, pitch), *_boxes(column, scale)])


def _column(column: ModelColumn, width: float, top: float, pitch: float) -> Drawing:
    """The header and the strips of a model; a layer is equally high in all models."""
    yield from header.shapes(column.anatomy, column.x, width, keys_right=False)
    heights = strip.heights_at(column.anatomy.strips, pitch)
    yield from joins.column(column.anatomy.strips, column.x, top, heights)
    if column.kinds:
        first = column.packed.kinds[0]
        yield text(first.x, first.y - HEADING + 14, kinds_title(len(column.kinds)), "head")


def _boxes(column: ModelColumn, scale: Any) -> Drawing:
    boxes = [*column.kinds, *column.panels]
    names = [box.letter or box.path for box in boxes]
    places: list[Slot] = [*column.packed.kinds, *column.packed.panels]
    for name, box, place in zip(names, boxes, places, strict=True):
        yield from box.shapes(place.x, place.y, place.width, scale, place.height)
        if name in column.distinct:
            yield legend.marked(place.x + place.width - 1, place.y + 1, "differs")


def most_stored(anatomies: Sequence[Anatomy]) -> Any:
    """The longest bar at the foot."""
    return most(0, *(sum(share.stored.value for share in anatomy.shares) for anatomy in anatomies))


def all_bars(anatomies: Sequence[Anatomy], y: float, width: float) -> tuple[list[SvgShape | Many], float]:
    """(bars of each model, stored and read, on one scale; y of their end)."""
    shapes = list[SvgShape | Many]()
    for anatomy in anatomies:
        if anatomy.shares or anatomy.foot:
            whole = most_stored(anatomies)
            drawn, y = _bars_of(anatomy, MARGIN, y, width, width / whole if concrete(whole) else 0.0)
            shapes.append(_of(anatomy, drawn))
    return shapes, y


def _bars_of(
    anatomy: Anatomy, x: float, y: float, width: float, scale: Any
) -> tuple[list[SvgShape | Many], float]:
    """The bars of one model and the names of its shares."""
    first, *further = words_of(anatomy.bars)
    name = cut(anatomy.title, width / 2, "head")
    title = (Word(f"{name}: {first.content[:1].lower()}{first.content[1:]}"), *further)
    shapes: list[SvgShape | Many] = [*foot.titled(anatomy, title, x, y, width)]
    y += foot.heading(anatomy, width)
    if not anatomy.shares:
        return shapes, y + 14
    unit = foot.UNITS[anatomy.shown]
    for read in [False] if foot.is_single(anatomy) else [False, True]:
        whole = sum((share.read if read else share.stored).value for share in anatomy.shares)
        segments = foot.segments(anatomy.shares, x, scale * whole, read=read)
        # one thinner than half a unit is not seen: its name and amount stand below the bar
        seen = [segment for segment in segments if round(concrete(segment.width))]
        shapes += foot.bar(seen, y, unit, named=False)
        y += foot.BAR + 6
    chips, y = _chips(anatomy, x, y + 2, width)
    return [*shapes, *chips], y + 14


def _chips(anatomy: Anatomy, left: float, y: float, width: float) -> tuple[list[SvgShape | Many], float]:
    """A legend of the shares: colour, name, stored and read amounts."""
    shapes, x, unit, single = (
        list[SvgShape | Many](),
        left,
        foot.UNITS[anatomy.shown],
        foot.is_single(anatomy),
    )
    for segment in foot.segments(anatomy.shares, left, width, read=False):
        share = segment.share
        label = [Word(f"{share.name} "), number(share.stored, unit)]
        label += [] if single else [Word(", read "), number(share.read, unit)]
        room = CHIP + 6 + width_of(tuple(label))
        if x > left and x + room > left + width:
            x, y = left, y + LEADING + 2
        shapes.append(rect(x, y + 3, CHIP, CHIP, f"solid-{share.hue}"))
        if segment.texture:
            shapes.append(rect(x, y + 3, CHIP, CHIP, segment.texture))
        shapes.append(text(x + CHIP + 6, y + 13, tuple(label)))
        x += room + 22
    return shapes, y + LEADING + 4


def _differences(
    anatomies: Sequence[Anatomy], differences: Sequence[Difference], y: float, width: float
) -> tuple[list[SvgShape | Many], float]:
    """The settings in which the models differ: a line for each, with a column for each model."""
    if not differences:
        return [text(MARGIN, y + 14, "They state the same.", "head")], y + 24
    shapes: list[SvgShape | Many] = [text(MARGIN, y + 14, "What they state differently", "head")]
    first = min(max(width_of(word.path) for word in differences) + 20, 0.4 * width)
    room = (width - first) / len(anatomies)
    y += 26
    for i, anatomy in enumerate(anatomies):
        shapes.append(text(MARGIN + first + i * room, y + 12, cut(anatomy.name, room - 12, "label"), "label"))
    for word in differences[:MOST_WORDS]:
        y += LEADING + 3
        shapes.append(path(f"M {MARGIN} {y - 1.5:.1f} H {MARGIN + width:.1f}", "thin none s-hair"))
        shapes.append(text(MARGIN, y + 12, cut(word.path, first - 12), ink="muted compared"))
        for i, value in enumerate(word.values):
            content = cut(value or "–", room - 12)
            shapes.append(text(MARGIN + first + i * room, y + 12, content, ink="ink compared"))
    if len(differences) > MOST_WORDS:
        y += LEADING + 3
        names = " ".join(anatomy.name for anatomy in anatomies)
        more = f"and {len(differences) - MOST_WORDS} more: archcli compare {names}"
        shapes.append(text(MARGIN, y + 12, cut(more, width), ink="muted compared"))
    return shapes, y + 20
