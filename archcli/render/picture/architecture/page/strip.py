"""The strip: every layer of a stack as a cell, its mixer on the left and its network on the right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from archcli.measure.survey.anatomy.records import Cell, Hue, Run, Strip
from archcli.render.picture.architecture.page.printed import lines_of, steps
from archcli.render.picture.architecture.shapes import Many, Shape
from archcli.render.picture.architecture.style import LEADING, Words, path, rect, text, width_of

WIDTH = 198.0
"""Units of a strip with the numbers on its left and the braces on its right."""
CELLS, WIDE, MIXER = 28.0, 90.0, 30.0
"""Where the cells begin, how wide they are, and how much of that their mixers take."""
BRACE, LABEL = 128.0, 138.0
NARROW, BOX, STEP, PILL = 90.0, 10.0, 14.0, 19.0
"""The least width of a box, what it has beside its text, from box to box, and the height of a norm."""
HEADING, SPACE = 24.0, 16.0
LEAST_PITCH = 4.0
"""Below this height of a cell its runs are drawn, not each layer."""
NUMBERED = (10, 20, 50, 100, 200, 500)
HATCHED: frozenset[Hue] = frozenset({"recurrent"})

Drawing = Iterator[Shape | Many]


class Column(NamedTuple):
    """Where cells stand: the left and upper edge, the height of all, and of one layer."""

    x: float
    top: float
    height: float
    pitch: Any

    def above(self, layer: Any) -> Any:
        """The lower edge of a layer: they count upwards."""
        return self.top + self.height - layer * self.pitch


def least_height(strip: Strip) -> float:
    """Units that a strip needs: its boxes, and cells high enough to be seen."""
    return (
        HEADING + _boxes(strip.before) + _boxes(strip.after) + min(max(120.0, 9.0 * len(strip.cells)), 340.0)
    )


def shapes(strip: Strip, x: float, y: float, height: float, title: str = "Layers") -> Drawing:
    """A strip: from the input at its foot to the output at its head."""
    yield text(x, y + 14, title, "head")
    top = y + HEADING + _boxes(strip.after)
    room = height - HEADING - _boxes(strip.after) - _boxes(strip.before)
    column = Column(x + CELLS, top, room, room / strip.n_layers.value)
    middle = column.x + WIDE / 2
    yield from _stacked(reversed(strip.after), middle, top, upwards=True)
    yield from _stacked(reversed(strip.before), middle, top + room, upwards=False)
    yield from _beside(strip.beside, x, y + HEADING)
    yield from _cells(strip.cells, column)
    yield from _numbers(strip, column)
    yield from _braces(strip.runs, column)


def column(strips: Sequence[Strip], x: float, y: float, height: float) -> Drawing:
    """The stacks of layers one above the other: an encoder stands below its decoder."""
    needed = [least_height(one) for one in strips]
    spare = (height - sum(needed) - SPACE * (len(strips) - 1)) / max(1, len(strips))
    for one, least in [*zip(strips, needed, strict=True)][::-1]:
        title = one.title[:1].upper() + one.title[1:] if len(strips) > 1 else "Layers"
        yield from shapes(one, x, y, least + spare, title)
        y += least + spare + SPACE


def column_height(strips: Sequence[Strip]) -> float:
    """Units that the stacks need at least."""
    return sum(map(least_height, strips)) + SPACE * (len(strips) - 1)


def _boxes(labels: Sequence[str]) -> float:
    return sum(_height(label) + STEP for label in labels)


def _is_norm(label: str) -> bool:
    return "norm" in label.lower()


def _lines(label: str) -> list[Words]:
    return lines_of(label, WIDTH - 52)


def _height(label: str) -> float:
    return PILL if _is_norm(label) else BOX + LEADING * len(_lines(label))


def _stacked(labels: Any, middle: float, edge: float, *, upwards: bool) -> Drawing:
    """Boxes above or below the cells, with arrows between them: data flows upwards."""
    for label in [*labels][::-1] if upwards else labels:
        height = _height(label)
        top = edge - STEP - height if upwards else edge + STEP
        yield from arrow(middle, edge if upwards else top, edge - STEP if upwards else edge)
        yield from box(label, _lines(label), middle, top, height)
        edge = top if upwards else top + height


def arrow(x: float, start: float, end: float) -> Drawing:
    """A line that leads up, with its head."""
    yield path(steps("M", x, start, "V", end + 4), "edge s-line")
    yield path(steps("M", x - 4, end + 6, "L", x, end, "L", x + 4, end + 6, "Z"), "line")


def box(label: str, lines: Sequence[Words], middle: float, top: float, height: float) -> Drawing:
    """What comes before or after the layers: a norm is a pill."""
    widest = max(map(width_of, lines)) + 16
    width = max(widest, 62.0) if _is_norm(label) else max(widest, NARROW)
    look, radius = ("paper thin s-line", 9.0) if _is_norm(label) else ("tint-plain thin s-plain", 4.0)
    yield rect(middle - width / 2, top, width, height, look, radius)
    first = top + (height - LEADING * len(lines)) / 2 + 12.5
    for i, content in enumerate(lines):
        yield text(middle, first + i * LEADING, content, anchor="middle")


def _beside(labels: Sequence[str], x: float, y: float) -> Drawing:
    """What stands apart from the layers, such as multi-token prediction: dashed boxes."""
    left = x + CELLS + WIDE + 14
    for label in labels:
        lines = lines_of(label, WIDTH - (left - x) - 12)
        height = BOX + LEADING * len(lines)
        yield rect(left, y, x + WIDTH - left, height, "held s-line", 4.0)
        for i, content in enumerate(lines):
            yield text((left + x + WIDTH) / 2, y + 17.5 + i * LEADING, content, ink="muted", anchor="middle")
        y += height + 6


def _cells(cells: Sequence[Cell], column: Column) -> Drawing:
    for cell in cells:
        height = column.pitch * cell.count
        gap = min(2.0, 0.15 * height)
        yield _cell(cell, column, column.above(cell.first + cell.count), height - gap)


def _cell(cell: Cell, column: Column, y: Any, height: Any) -> Shape:
    """A layer, or a run of like ones."""
    end = cell.first + cell.count - 1
    title = f"layer {cell.first}" if cell.count == 1 else f"layers {cell.first} to {end}"
    halves = [(cell.mixers, 0.0, MIXER), (cell.networks, MIXER + 2, WIDE - MIXER - 2)]
    inside = [piece for parts, x, width in halves for piece in _half(parts, column.x + x, y, width, height)]
    marks = {"class_": "cell", "data_layer": cell.first, "data_layers": cell.count, "data_of": cell.kind}
    if cell.count > 1:
        marks["data_value"] = cell.count
    letters = ", ".join(letter for _, letter in (*cell.mixers, *cell.networks))
    return Shape("g", marks, tuple(inside), title=f"{title}: {letters}" if letters else title)


def _half(parts: Sequence[tuple[Hue, str]], x: Any, y: Any, width: float, height: Any) -> Drawing:
    """The mixers or the networks of a layer side by side; what it lacks is a pale field."""
    if not parts:
        yield rect(x, y, width, height, "tint-plain")
    each = width / max(len(parts), 1)
    for i, (hue, _) in enumerate(parts):
        left, wide = x + i * each, each - (1.5 if i + 1 < len(parts) else 0.0)
        yield rect(left, y, wide, height, f"solid-{hue}")
        if hue in HATCHED:
            yield rect(left, y, wide, height, "hatched")


def _numbers(strip: Strip, column: Column) -> Drawing:
    """The index of each tenth layer, from 0 upwards, or of fewer where they lie close."""
    count = sum(cell.count for cell in strip.cells)
    pitch = column.height / count
    step = next((step for step in NUMBERED if step * pitch >= LEADING), NUMBERED[-1])
    for layer in range(0, count, step):
        yield text(column.x - 8, column.above(layer + 0.5) + 4.5, str(layer), ink="muted", anchor="end")


def _braces(runs: Sequence[Run], column: Column) -> Drawing:
    """The runs and periods, named on the right; those within another stand further left."""
    below = float("inf")
    room = WIDTH - LABEL
    for run in sorted(runs, key=lambda run: run.first):
        low, high = column.above(run.first), column.above(run.end)
        is_within = any(run != other and other.first <= run.first and run.end <= other.end for other in runs)
        x = column.x - CELLS + BRACE - (7 if is_within else 0)
        yield path(steps("M", x, low - 1, "H", x + 5, "V", high + 1, "H", x), "edge s-line")
        lines = lines_of(run.label, room)
        centre = min((low + high) / 2, below - LEADING * len(lines) / 2)
        first = centre - LEADING * len(lines) / 2 + 12.5
        for i, content in enumerate(lines):
            yield text(column.x - CELLS + LABEL, first + i * LEADING, content, "label" if i == 0 else "small")
        below = first - 12.5


def like_runs(cells: Sequence[Cell]) -> list[tuple[Cell, int]]:
    """Like neighbours together: the first of them, and how many layers they are."""
    alike = groupby(cells, key=lambda cell: (cell.kind, cell.mixers, cell.networks))
    groups = [[*members] for _, members in alike]
    return [(members[0], sum(cell.count for cell in members)) for members in groups]
