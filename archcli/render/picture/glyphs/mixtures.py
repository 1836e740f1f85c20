"""The glyph of routed experts: one cell an expert, those of an example token filled, one expert to scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from archcli.measure.survey.anatomy.records import Choice, Figure
from archcli.render.picture.architecture.numbers import concrete, floor, least
from archcli.render.picture.architecture.shapes import Many, Shape
from archcli.render.picture.architecture.style import LEADING, Words, line_of, path, rect, width_of
from archcli.render.picture.glyphs.base import BAR, PADDING, Frame, Glyph, Shapes, lines_at
from archcli.render.picture.graphs.places import Reach, Span

GRID = 190.0
"""The width of the grid at most."""
LOW = 88.0
"""The height of the grid at most."""
LARGEST = 20.0
SLOPE = 26.0
TALL = 10.0
GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class ExpertGrid(Glyph):
    """Experts: a grid with one cell each, a tall cell for those that are shared, and one expert to scale."""

    @property
    def choice(self) -> Choice | None:
        """How many there are, and how many a token runs."""
        return self.node.choice

    @property
    def inner(self) -> Figure | None:
        """The width within an expert."""
        return self.node.pieces[0].width if self.node.pieces else None

    @property
    def height(self) -> float:
        """The higher of the grid and the expert beside it, and the text under the grid."""
        return max(self._grid[1] + 4, self.inner is not None and 2 * (SLOPE + BAR) + BAR) + LEADING * len(
            self.lines
        )

    @property
    def lines(self) -> tuple[Words, ...]:
        """How many run of how many, what scores them, and the expert's widths."""
        if self.choice is None:
            return (line_of(self.node.label),)
        found = line_of(self.choice.chosen, " of ", self.choice.count)
        if self.choice.shared is not None:
            found = line_of(found, " + ", self.choice.shared, " shared")
        if self.choice.scores:
            found = line_of(found, f", {self.choice.scores}")
        widths = (line_of("one expert: ", self.feed, " → ", self.inner),) if self.inner and self.feed else ()
        return (found, *widths)

    @property
    def _columns(self) -> int:
        """Rows are groups where there are some; else the grid is about three times as wide as high."""
        if self.choice is None:
            return 1
        count = int(concrete(self.choice.count.value))
        groups = 0 if self.choice.groups is None else int(concrete(self.choice.groups.value))
        if groups > 1 and count % groups == 0 and count / groups <= 40:  # noqa: PLR2004 - else too thin
            return count // groups
        divisors = [n for n in range(1, count + 1) if count % n == 0]
        columns = min(divisors, key=lambda n: abs(n - (count * 2.6) ** 0.5))
        # of a prime number of experts the last row is not full
        return columns if columns > count**0.5 * 0.8 else round((count * 2.6) ** 0.5)

    @property
    def _grid(self) -> tuple[float, float]:
        """The grid's width and height."""
        count = 1 if self.choice is None else int(concrete(self.choice.count.value))
        rows = -(-count // self._columns)
        pitch = min(GRID / self._columns, LOW / rows, LARGEST)
        return self._columns * pitch, rows * pitch

    def reach(self, scale: float) -> Reach:
        """The grid and the tall cell about its axis, and one expert to the right."""
        grid = self._grid[0] + (2 * TALL if self.choice and self.choice.shared is not None else 0)
        text = max(map(width_of, self.lines))
        wide = (
            0
            if self.inner is None or self.feed is None
            else max(self.feed.value, self.inner.value, key=concrete)
        )
        least_ = max(grid, text) / 2 + PADDING
        if not wide:
            return Reach(Span(0, least_), Span(0, least_), spans=True)
        # half of what stands side by side on either side of the axis
        half = Span(wide / 2, grid / 2 + 1.5 * PADDING, least_)
        return Reach(half, half, spans=True)

    def shapes(self, frame: Frame, scale: Any) -> Shapes:
        """The box, the grid, the tall cell, the expert, and the text."""
        box = rect(
            frame.x - frame.left + 0.5,
            frame.top + 0.5,
            frame.left + frame.right - 1,
            self.height - 1,
            "none",
        )
        left = frame.x - frame.left + PADDING
        return (
            *self._cells(left, frame.top + 2),
            *self._shared(left, frame.top + 2),
            *self._one(frame, scale),
            *self._words(left, frame.top),
            box,
        )[:-1]

    def _words(self, left: Any, top: float) -> Shapes:
        first = top + self.height - LEADING * len(self.lines) + 12.5
        return lines_at(left, first, self.lines)

    def _cells(self, left: Any, top: float) -> Shapes:
        """All cells in the tint, those of the example in the solid colour."""
        if self.choice is None:
            return ()
        count, chosen = self.choice.count.value, self.choice.chosen.value
        columns = self._columns
        rows = floor((count - 1) / columns) + 1
        pitch = least(GRID / columns, LOW / rows, LARGEST)

        def cell(i: Any, class_: str) -> Shape:
            row = floor((i + 0.5) / columns)
            return rect(
                left + (i - row * columns) * pitch, top + row * pitch, pitch * 0.86, pitch * 0.86, class_
            )

        def example(j: Any) -> Shape:
            # one in each of k equal stretches, so that no two are the same
            turn = (j + 1) * GOLDEN
            return cell(
                floor(j * count / chosen + (turn - floor(turn)) * (count / chosen - 1)), f"solid-{self.hue}"
            )

        note = f"the {int(concrete(chosen))} experts of a token, for example"
        return (
            Many(count, lambda i: cell(i, f"tint-{self.hue} s-{self.hue} hairline")),
            Shape("g", {}, (Many(chosen, example),), title=note),
        )

    def _shared(self, left: Any, top: float) -> Shapes:
        if self.choice is None or self.choice.shared is None:
            return ()
        width, height = self._grid
        return (
            rect(
                left + width + TALL * 0.6,
                top,
                TALL,
                height - 1.5,
                "solid-shared",
                2,
                self.choice.shared,
                "shared",
            ),
        )

    def _one(self, frame: Frame, scale: Any) -> Shapes:
        """One expert: two trapezoids with its width between."""
        if self.inner is None or self.feed is None:
            return ()
        wide, waist = self.feed.value * scale / 2, self.inner.value * scale / 2
        x = frame.x + frame.right - PADDING - (wide if concrete(wide) > concrete(waist) else waist)
        top = frame.top + 1
        low = top + BAR + SLOPE
        class_ = f"tint-{self.hue} s-{self.hue} thin"
        upper = path(
            f"M{x - wide:.1f} {top + BAR:.1f}H{x + wide:.1f}L{x + waist:.1f} {low:.1f}H{x - waist:.1f}Z",
            class_,
        )
        lower = path(
            f"M{x - waist:.1f} {low + BAR:.1f}H{x + waist:.1f}L{x + wide:.1f} {low + BAR + SLOPE:.1f}H{x - wide:.1f}Z",
            class_,
        )
        bars = (
            rect(x - wide, top, wide * 2, BAR, "solid-plain", None, self.feed),
            rect(x - waist, low, waist * 2, BAR, f"solid-{self.hue}", None, self.inner),
            rect(x - wide, low + BAR + SLOPE, wide * 2, BAR, "solid-plain", None, self.feed),
        )
        return (upper, lower, *bars)
