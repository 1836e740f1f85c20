"""The strip: every layer of a stack as a cell, its mixer on the left and its network on the right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from math import fsum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from archcli.wings.drawing.picture.architecture.numbers import concrete, least
from archcli.wings.drawing.picture.architecture.page.printed import lines_of, steps
from archcli.wings.drawing.picture.architecture.shapes import Many, SvgShape
from archcli.wings.drawing.picture.architecture.style import LEADING, Words, path, rect, text, width_of

if TYPE_CHECKING:
    from archcli.wings.drawing.drawn import Cell, Hue, LayerRun, Strip

WIDTH = 198.0
"""Units of a strip with the numbers on its left and the braces on its right."""
CELLS, WIDE, MIXER = 28.0, 90.0, 30.0
"""Left edge and width of the cells, and the part of that width for mixers."""
BRACE, LABEL = 128.0, 138.0
"""Left edges of braces and of their labels."""
NARROW, BOX, STEP, PILL = 90.0, 10.0, 14.0, 19.0
"""The least width of a box, its padding, the distance of boxes, and the height of a norm."""
HEADING, SPACE = 24.0, 16.0
LEAST_CELLS = 30.0
"""The least units of all cells of a stack."""
FEW_BRACES = 3
"""The most runs with a brace each; of more only runs of several layers have one."""
NUMBERED = (10, 20, 50, 100, 200, 500)
"""Steps of layer numbers: the first at which labels do not overlap."""
HATCHED: frozenset[Hue] = frozenset({"recurrent"})

Drawing = Iterator[SvgShape | Many]
Placed: TypeAlias = "tuple[Strip, float, float]"


class CellColumn(NamedTuple):
    """The place of the cells: left and upper edge, height of all, and of one layer (`pitch`)."""

    x: float
    top: float
    height: float
    pitch: Any

    def above(self, layer: Any) -> Any:
        """The lower edge of a layer: they count upwards."""
        return self.top + self.height - layer * self.pitch


def least_height(strip: Strip) -> float:
    """Units that a strip needs: its boxes, and cells high enough to be seen."""
    return _fixed(strip) + min(max(120.0, 9.0 * len(strip.cells)), 340.0)


def shapes(strip: Strip, x: float, y: float, height: float, title: str = "Layers") -> Drawing:
    """A strip: from the input at its foot to the output at its head."""
    yield text(x, y + 14, title, "head")
    column = cells_at(strip, x, y, height)
    middle = column.x + WIDE / 2
    before, after = strip.rows
    upper = _stacked(reversed(strip.after), after, middle, column.top, upwards=True, idle=strip.joins.idle)
    lower = _stacked(reversed(strip.before), before, middle, column.top + column.height, upwards=False)
    yield _end("after", strip, upper)
    yield _end("before", strip, lower)
    yield from _apart(strip.beside, x, y + HEADING)
    yield from _cells(strip, column)
    yield from _numbers(strip, column)
    yield from _braces(strip, column)


def cells_at(strip: Strip, x: float, y: float, height: float) -> CellColumn:
    """The place of the cells of a strip."""
    room = height - HEADING - _boxes(strip.after) - _boxes(strip.before)
    return CellColumn(x + CELLS, y + HEADING + _boxes(strip.after), room, room / strip.n_layers.value)


def placed(strips: Sequence[Strip], y: float, heights: Sequence[float]) -> list[Placed]:
    """The stacks from the uppermost down, an encoder below its decoder, with upper edges and heights."""
    stacks = list[Placed]()
    for strip, height in [*zip(strips, heights, strict=True)][::-1]:
        stacks.append((strip, y, height))
        y += height + SPACE
    return stacks


def column(strips: Sequence[Strip], x: float, y: float, heights: Sequence[float]) -> Drawing:
    """The stacks of layers, each with its title."""
    for strip, top, height in placed(strips, y, heights):
        title = strip.title[:1].upper() + strip.title[1:] if len(strips) > 1 else "Layers"
        yield from shapes(strip, x, top, height, title)


def entry_of(strips: Sequence[Strip], x: float, y: float, heights: Sequence[float]) -> tuple[float, float]:
    """(x, y) of the right edge of the first box of the stacks that `column` draws at x and y."""
    bottom, label = y + fsum(heights) + SPACE * (len(strips) - 1), strips[0].before[0]
    return x + CELLS + WIDE / 2 + half_of(label), bottom - height_of(label) / 2


def pitch_of(strips: Sequence[Strip], height: float) -> float:
    """Units of a layer, the same in all stacks, at which they fill a height."""
    room = height - fsum(map(_fixed, strips)) - SPACE * (len(strips) - 1)
    counts = [concrete(strip.n_layers.value) for strip in strips]
    pitch = room / max(1.0, fsum(counts))
    few = [count for count in counts if count * pitch < LEAST_CELLS]
    # a stack of few layers gets LEAST_CELLS, and the others share the rest
    rest = fsum(counts) - fsum(few)
    return (room - LEAST_CELLS * len(few)) / rest if few and rest else pitch


def heights_at(strips: Sequence[Strip], pitch: float) -> list[float]:
    """Units of each stack, if a layer has `pitch` units."""
    return [_fixed(strip) + max(LEAST_CELLS, pitch * concrete(strip.n_layers.value)) for strip in strips]


def _fixed(strip: Strip) -> float:
    """Units of the heading and the boxes above and below the cells."""
    return HEADING + _boxes(strip.before) + _boxes(strip.after)


def column_height(strips: Sequence[Strip]) -> float:
    """The least units of all stacks."""
    return fsum(map(least_height, strips)) + SPACE * (len(strips) - 1)


def _boxes(labels: Sequence[str]) -> float:
    return fsum(height_of(label) + STEP for label in labels)


def _is_norm(label: str) -> bool:
    return "norm" in label.lower()


def _lines(label: str) -> list[Words]:
    return lines_of(label, WIDTH - 52)


def height_of(label: str) -> float:
    """Units of the height of a box before or after the layers."""
    return PILL if _is_norm(label) else BOX + LEADING * len(_lines(label))


def _end(name: str, strip: Strip, shapes: Drawing) -> SvgShape:
    """A group of the boxes before or after the cells; `data-stack` is the kind of the first layer."""
    return SvgShape("g", {"data_end": name, "data_stack": strip.cells[0].kind}, tuple(shapes))


def half_of(label: str) -> float:
    """Units from the middle of such a box to its edge."""
    widest = max(map(width_of, _lines(label))) + 16
    return max(widest, 62.0 if _is_norm(label) else NARROW) / 2


def _stacked(
    labels: Any,
    rows: Mapping[str, str],
    middle: float,
    edge: float,
    *,
    upwards: bool,
    idle: Sequence[str] = (),
) -> Drawing:
    """Boxes above or below the cells, with arrows between them: data flows upwards, to idle ones too."""
    below = ""
    for label in [*labels][::-1] if upwards else labels:
        height = height_of(label)
        top = edge - STEP - height if upwards else edge + STEP
        if below not in idle or label in idle:
            yield from arrow(middle, edge if upwards else top, edge - STEP if upwards else edge)
        below = label
        ink = "muted" if label in idle else "ink"
        yield from box(label, _lines(label), middle, top, height, rows.get(label, ""), ink)
        edge = top if upwards else top + height


def head(x: float, tip: float, y: Any, half: float = 4.0) -> SvgShape:
    """The head of an arrow from the right."""
    return path(steps("M", x, y - half, "L", tip, y, "L", x, y + half, "Z"), "line")


def arrow(x: float, start: float, end: float) -> Drawing:
    """An upward arrow."""
    yield path(steps("M", x, start, "V", end + 4), "edge s-line")
    yield path(steps("M", x - 4, end + 6, "L", x, end, "L", x + 4, end + 6, "Z"), "line")


def box(
    label: str,
    lines: Sequence[Words],
    middle: float,
    top: float,
    height: float,
    title: str = "",
    ink: str = "ink",
) -> Drawing:
    """A box before or after the layers with a tooltip; a norm is a pill."""
    width = 2 * half_of(label)
    look, radius = ("paper thin s-line", 9.0) if _is_norm(label) else ("tint-plain thin s-plain", 4.0)
    yield rect(middle - width / 2, top, width, height, look, radius, title=title)
    first = top + (height - LEADING * len(lines)) / 2 + 12.5
    for i, content in enumerate(lines):
        yield text(middle, first + i * LEADING, content, ink=ink, anchor="middle")


def _apart(labels: Sequence[str], x: float, y: float) -> Drawing:
    """Dashed boxes beside the layers, such as multi-token prediction."""
    left = x + CELLS + WIDE + 14
    for label in labels:
        lines = lines_of(label, WIDTH - (left - x) - 12)
        height = BOX + LEADING * len(lines)
        yield rect(left, y, x + WIDTH - left, height, "held s-line", 4.0)
        for i, content in enumerate(lines):
            yield text((left + x + WIDTH) / 2, y + 17.5 + i * LEADING, content, ink="muted", anchor="middle")
        y += height + 6


def _cells(strip: Strip, column: CellColumn) -> Drawing:
    """A cell for each layer; of many layers one for each run."""
    if len(strip.cells) == sum(cell.count for cell in strip.cells):
        for run in placed_runs(strip):
            yield from _layers(run, strip, column)
    else:
        ends = _run_ends(strip)
        for cell, first, end in zip(strip.cells, [0, *ends[:-1]], ends, strict=True):
            yield _cell(cell, column, first, end - first, is_run=True)


def _run_ends(strip: Strip) -> list[Any]:
    """The last layer + 1 of each run."""
    # by braces if there is one per cell: these change with figures of the report
    if len(strip.cells) == len(strip.runs):
        return [run.end for run in placed_runs(strip)]
    return [cell.first + cell.count for cell in strip.cells]


class PlacedRun(NamedTuple):
    """A run with the current values of its lengths, first layer and end."""

    run: LayerRun
    first: Any
    end: Any
    lengths: tuple[Any, ...]


def placed_runs(strip: Strip) -> Iterator[PlacedRun]:
    """The runs of a strip, from the first layer on."""
    first: Any = 0
    for run in strip.runs:
        lengths = tuple(length.value for length in run.lengths)
        end = first + (1 if run.times is None else run.times.value) * sum(lengths)
        yield PlacedRun(run, first, end, lengths)
        first = end


def _layers(placed: PlacedRun, strip: Strip, column: CellColumn) -> Drawing:
    """The cells of a run; of a period those of each of its lengths."""
    offset: Any = 0
    for length in placed.lengths:
        cell = strip.cells[placed.run.first + int(concrete(offset))]
        yield Many(
            (placed.end - placed.first) // sum(placed.lengths) * length,
            partial(_layer, cell, column, placed.first + offset, length, sum(placed.lengths)),
        )
        offset = offset + length


def _layer(cell: Cell, column: CellColumn, first: Any, length: Any, period: Any, number: Any) -> SvgShape:
    """The cell of the `number`-th equal layer: each period has `length` of them in sequence."""
    return _cell(cell, column, first + number // length * period + number % length, 1)


def _cell(cell: Cell, column: CellColumn, first: Any, count: Any, *, is_run: bool = False) -> SvgShape:
    """A layer, or a run of `count` like ones."""
    height = column.pitch * count
    height, y = height - least(2.0, 0.15 * height), column.above(first + count)
    title = f"layer {first}" if cell.count == 1 else f"layers {first} to {first + count - 1}"
    halves = [(cell.mixers, 0.0, MIXER), (cell.networks, MIXER + 2, WIDE - MIXER - 2)]
    inside = [piece for parts, x, width in halves for piece in _half(parts, column.x + x, y, width, height)]
    marks = {"class_": "cell", "data_layer": first, "data_layers": count, "data_of": cell.kind}
    if is_run:
        marks["data_value"] = count
    letters = ", ".join(letter for _, letter in (*cell.mixers, *cell.networks))
    return SvgShape("g", marks, tuple(inside), title=f"{title}: {letters}" if letters else title)


def _half(parts: Sequence[tuple[Hue, str]], x: Any, y: Any, width: float, height: Any) -> Drawing:
    """The mixers or the networks of a layer, side by side; a pale field if it has none."""
    if not parts:
        yield rect(x, y, width, height, "tint-plain")
    cell = width / max(len(parts), 1)
    for i, (hue, _) in enumerate(parts):
        left, wide = x + i * cell, cell - (1.5 if i + 1 < len(parts) else 0.0)
        yield rect(left, y, wide, height, f"solid-{hue}")
        if hue in HATCHED:
            yield rect(left, y, wide, height, "hatched")


def _numbers(strip: Strip, column: CellColumn) -> Drawing:
    """The index of each tenth layer from 0, or of fewer if layers are close."""
    pitch = concrete(column.pitch)
    step = next((step for step in NUMBERED if step * pitch >= LEADING), NUMBERED[-1])
    # as many as there are layers 0, step, 2 step, …
    yield Many((strip.n_layers.value + step - 1) // step, partial(_number, column, step))


def _number(column: CellColumn, step: int, place: Any) -> SvgShape:
    layer = place * step
    return text(column.x - 8, column.above(layer + 0.5) + 4.5, f"{layer}", ink="muted index", anchor="end")


def _braces(strip: Strip, column: CellColumn) -> Drawing:
    """Labelled braces of runs and periods on the right; of many runs only those of several layers."""
    below: Any = float("inf")
    room = WIDTH - LABEL
    x = column.x - CELLS + BRACE
    for run, start, end, _ in placed_runs(strip):
        if run.end - run.first == 1 and len(strip.runs) > FEW_BRACES:
            continue
        low, high = column.above(start), column.above(end)
        yield path(steps("M", x, low - 1, "H", x + 5, "V", high + 1, "H", x), "edge s-line")
        lines = lines_of(run.label, room)
        centre = least((low + high) / 2, below - LEADING * len(lines) / 2)
        first = centre - LEADING * len(lines) / 2 + 12.5
        for i, content in enumerate(lines):
            yield text(column.x - CELLS + LABEL, first + i * LEADING, content, "label" if i == 0 else "small")
        below = first - 12.5


def like_runs(cells: Sequence[Cell]) -> list[tuple[Cell, int]]:
    """(first cell, number of layers) of each run of equal neighbours."""
    alike = groupby(cells, key=lambda cell: (cell.kind, cell.mixers, cell.networks))
    groups = [[*members] for _, members in alike]
    return [(members[0], sum(cell.count for cell in members)) for members in groups]
