"""Glyphs of experts: a grid with a cell for each, an example token's filled; one expert to scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from archcli.wings.drawing.drawn import Figure
from archcli.wings.drawing.picture.architecture.glyphs.base import (
    BAR,
    BESIDE,
    PADDING,
    Frame,
    Glyph,
    Shapes,
    lines_at,
)
from archcli.wings.drawing.picture.architecture.graphs.places import Reach, SideRoom
from archcli.wings.drawing.picture.architecture.numbers import concrete, floor, least
from archcli.wings.drawing.picture.architecture.shapes import Many, SvgShape
from archcli.wings.drawing.picture.architecture.style import (
    LEADING,
    Words,
    line_of,
    path,
    rect,
    text,
    width_of,
)

GRID, LOW, LARGEST = 192.0, 80.0, 20.0
"""The most units of the grid's width, of its height, and of a cell."""
SLOPE = 20.0
"""Height of a trapezoid."""
GOLDEN = 0.6180339887498949
"""Golden ratio - 1: its multiples modulo 1 spread evenly, and look random."""
MOST_IN_A_ROW = 40
ASPECT = 2.6
"""Width / height of the grid, about."""


@dataclass(frozen=True)
class Expert(Glyph):
    """A shared expert: its products to scale, one above the other."""

    bottom: bool = True
    top: bool = True

    @property
    def stations(self) -> tuple[tuple[Figure, int, bool], ...]:
        """(width, count, whether it is the residual stream) of each bar, from the input up."""
        bars = [
            (node.width, max(1, len(node.stacked)), False)
            for node in self.node.inner
            if node.width is not None and node.role == "matrix"
        ]
        first = next((node.width for node in self.node.inner if node.role == "input"), None) or self.feed
        if first is None or not bars:
            return ()
        last = bars[-1]
        return ((first, 1, True), *bars[:-1], (last[0], 1, True))

    @property
    def tall(self) -> float:
        """The height of its bars and the trapezoids between them."""
        bars = sum(count for _, count, _ in self.stations)
        return SLOPE * max(0, len(self.stations) - 1) + bars * (BAR + 1)

    @property
    def height(self) -> float:
        """The height of its bars or of its text, whichever is larger."""
        return max(self.tall, LEADING * len(self.lines))

    @property
    def wide(self) -> Any:
        """Features of its widest bar."""
        return max((width.value for width, _, _ in self.stations), key=concrete, default=0)

    @property
    def lines(self) -> tuple[Words, ...]:
        """Its name, its inner width and facts."""
        inner = [width for width, _, stream in self.stations if not stream]
        widths = (line_of(self.stations[0][0], " → ", inner[0]),) if inner else ()
        return (line_of(self.node.label), *widths, *map(line_of, self.node.lines))

    def reach(self, scale: float) -> Reach:
        """Half of the widest bar, and the text on the right."""
        room = BESIDE + max(map(width_of, self.lines))
        return Reach(SideRoom(self.wide / 2, 0, 3), SideRoom(self.wide / 2, room, 3 + room))

    def shapes(self, frame: Frame, scale: Any) -> Shapes:
        """The bars, the trapezoids between them, and the text."""
        top = frame.top + self.height - self.tall
        start = frame.x + frame.right - max(map(width_of, self.lines))
        first = frame.top + self.height / 2 + 4.5 - (len(self.lines) - 1) * LEADING / 2
        return (*self.drawn(frame.x, top, scale), *lines_at(start, first, self.lines))

    def drawn(self, x: Any, top: float, scale: Any) -> Shapes:
        """The bars and the trapezoids between them, from an upper edge."""
        shapes: list[Any] = []
        y, before = top + self.tall, None
        for width, count, stream in self.stations:
            half = width.value * scale / 2
            if before is not None:
                end = y - SLOPE
                steps = f"M{x - before:.1f} {y:.1f}H{x + before:.1f}L{x + half:.1f} {end:.1f}H{x - half:.1f}Z"
                shapes.append(path(steps, f"tint-{self.hue} s-{self.hue} thin", self.title()))
                y -= SLOPE
            for _ in range(count):
                y -= BAR + 1
                class_ = "solid-plain" if stream else f"solid-{self.hue}"
                shapes.append(rect(x - half, y + 0.5, half * 2, BAR, class_, None, width))
            before = half
        return tuple(shapes)


@dataclass(frozen=True)
class ExpertGrid(Glyph):
    """Routed experts in a box: a grid with one cell each, and one of them to scale."""

    @property
    def expert(self) -> Expert:
        """One of the experts."""
        return Expert(self.node, self.hue, self.feed)

    @property
    def count(self) -> Any:
        """The number of experts."""
        return 1 if self.node.choice is None else self.node.choice.count.value

    @property
    def height(self) -> float:
        """The higher of the grid and the expert beside it, and the text under them."""
        return max(self._grid[1], self.expert.tall) + LEADING * len(self.lines) + 2 * PADDING + 2

    @property
    def lines(self) -> tuple[Words, ...]:
        """`8 of 256; each 7168 → 2048`: experts that run, and the widths of one."""
        choice = self.node.choice
        if choice is None:
            return (line_of(self.node.label),)
        text = line_of(choice.chosen, " of ", choice.count)
        if choice.groups is not None:
            text = line_of(text, " in ", choice.groups, " groups")
        return (line_of(text, "; each ", self.expert.lines[1]) if len(self.expert.lines) > 1 else text,)

    @property
    def _columns(self) -> int:
        """Columns of the grid: a group per row; without groups a divisor of the count near ASPECT."""
        count = int(concrete(self.count))
        choice = self.node.choice
        groups = 0 if choice is None or choice.groups is None else int(concrete(choice.groups.value))
        if groups > 1 and count % groups == 0 and count // groups <= MOST_IN_A_ROW:
            return count // groups
        wanted = (count * ASPECT) ** 0.5
        divisors = [n for n in range(1, count + 1) if count % n == 0 and wanted / 1.7 < n < wanted * 1.7]
        return min(divisors, key=lambda n: abs(n - wanted), default=max(1, round(wanted)))

    @property
    def _grid(self) -> tuple[float, float]:
        """The grid's width and height."""
        rows = -(-int(concrete(self.count)) // self._columns)
        pitch = min(GRID / self._columns, LOW / rows, LARGEST)
        return self._columns * pitch, rows * pitch

    def reach(self, scale: float) -> Reach:
        """The grid and one expert to scale beside each other, or the text under them."""
        grid = self._grid[0] + 2 * PADDING
        text_ = max(map(width_of, self.lines)) + 2 * PADDING
        half = SideRoom(self.expert.wide / 2, (grid + 2 * PADDING) / 2, text_ / 2)
        return Reach(half, half, spans=True)

    def shapes(self, frame: Frame, scale: Any) -> Shapes:
        """The box, the grid, one expert, and the text."""
        left, width = frame.x - frame.left, frame.left + frame.right
        class_ = f"paper s-{self.hue} thin"
        box = rect(left + 0.5, frame.top + 0.5, width - 1, self.height - 1, class_, 6, None, self.title())
        band = max(self._grid[1], self.expert.tall)
        top = frame.top + PADDING
        # grid and expert in the middle of the box
        half = (self._grid[0] + 2 * PADDING) / 2 + self.expert.wide * scale / 2
        start = frame.middle() - half
        expert = self.expert.drawn(
            frame.middle() + half - self.expert.wide * scale / 2, top + (band - self.expert.tall) / 2, scale
        )
        first = frame.top + self.height - PADDING - LEADING * (len(self.lines) - 1) + 2
        texts = tuple(
            text(frame.middle(), first + i * LEADING, line, anchor="middle")
            for i, line in enumerate(self.lines)
        )
        grid = top + (band - self._grid[1]) / 2
        return (box, *self._cells(start, grid), *expert, *texts)

    def _cells(self, left: Any, top: float) -> Shapes:
        """All cells in the tint, those of the example in the solid colour."""
        choice, columns = self.node.choice, self._columns
        if choice is None:
            return ()
        count, chosen = choice.count.value, choice.chosen.value
        rows = floor((count - 1) / columns) + 1
        pitch = least(GRID / columns, LOW / rows, LARGEST)

        def cell(i: Any, class_: str) -> SvgShape:
            row = floor((i + 0.5) / columns)
            side = pitch * 0.86
            return rect(left + (i - row * columns) * pitch, top + row * pitch, side, side, class_)

        def example(j: Any) -> SvgShape:
            # one in each of k equal stretches, at least one cell apart
            turn = (j + 1) * (j + 1) * GOLDEN
            return cell(
                floor(j * count / chosen + (turn - floor(turn)) * (count / chosen - 1)), f"solid-{self.hue}"
            )

        cells = Many(count, lambda i: cell(i, f"tint-{self.hue} s-{self.hue} hairline"))
        note = "the experts that a token runs, for example"
        return (
            SvgShape("g", {}, (cells,), figure=choice.count),
            SvgShape("g", {}, (Many(chosen, example),), title=note, figure=choice.chosen),
        )
