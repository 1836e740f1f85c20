"""The glyph of what mixes tokens: attention with its mask, a scan with its states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from archcli.wings.drawing.drawn import HeldState
from archcli.wings.drawing.picture.architecture.glyphs.base import PADDING, Frame, Glyph, Shapes
from archcli.wings.drawing.picture.architecture.graphs.places import Reach, SideRoom
from archcli.wings.drawing.picture.architecture.numbers import floor, root, where
from archcli.wings.drawing.picture.architecture.shapes import Many, SvgShape
from archcli.wings.drawing.picture.architecture.style import LEADING, Words, line_of, rect, text, width_of

SIGN = 46.0
"""The side of the square of a mask or of the states."""
MOST_STATES = 64
"""One square a head up to so many, beyond it one for all."""


@dataclass(frozen=True)
class CoreBox(Glyph):
    """A box with the mask or the states, and beside them what it does and what it holds."""

    @property
    def height(self) -> float:
        """The sign or the text, whichever is higher."""
        return max(self._sign and SIGN, LEADING * len(self.lines)) + 12

    @property
    def _sign(self) -> bool:
        return self.node.mask is not None or len(self.node.held) > 0

    @property
    def lines(self) -> tuple[Words, ...]:
        """Its name, the states that it holds, and facts."""
        states = [_state(held) for held in self.node.held]
        cached = () if self.node.cached is None else (line_of(self.node.cached, " a token", unit="bytes"),)
        facts = [*self._masked, *map(line_of, self.node.lines)]
        return (line_of(self.node.label), *states, *facts, *cached)

    @property
    def _masked(self) -> list[Words]:
        """The caption of the mask: its kind, and its window."""
        mask = self.node.mask
        if mask is None:
            return []
        kind = mask.kind.replace("_", " ")
        return [line_of(kind) if mask.window is None else line_of(f"{kind} ", mask.window)]

    @property
    def needed(self) -> float:
        """The width of its content."""
        widths = [width_of(self.lines[0], "label"), *map(width_of, self.lines[1:])]
        return max(widths) + (SIGN + PADDING if self._sign else 0) + 2 * PADDING

    def reach(self, scale: float) -> Reach:
        """The room to the left and right: of its content, or of its inputs if these are wider."""
        half = max(self.needed, self.least) / 2
        return Reach(SideRoom(0, half), SideRoom(0, half), spans=True)

    def shapes(self, frame: Frame, scale: Any) -> Shapes:
        """The box, its sign and its text, the content in the middle."""
        box = rect(
            frame.x - frame.left + 0.5,
            frame.top + 0.5,
            frame.left + frame.right - 1,
            self.height - 1,
            f"tint-{self.hue} s-{self.hue} thin",
            6,
            title=self.title(),
        )
        left = frame.middle() - self.needed / 2 + PADDING
        middle = frame.top + self.height / 2
        sign = self._drawn(left, middle - SIGN / 2)
        start = left + (SIGN + PADDING if self._sign else 0)
        first = middle + 4.5 - (len(self.lines) - 1) * LEADING / 2
        texts = tuple(
            text(start, first + i * LEADING, line, "small" if i else "label")
            for i, line in enumerate(self.lines)
        )
        return (box, *sign, *texts)

    def _drawn(self, left: Any, top: float) -> Shapes:
        if self.node.mask is not None:
            return (_mask(self.node.mask.cells, left, top, self.hue, self.node.mask.kind),)
        return _states(self.node.held[0], left, top, self.hue) if self.node.held else ()


def _mask(cells: tuple[tuple[bool, ...], ...], left: Any, top: float, hue: str, kind: str) -> SvgShape:
    """Queries from top to bottom, keys from left to right; filled where a query reads a key."""
    pitch = SIGN / max(len(cells), 1)
    side = pitch - 0.8
    steps = "".join(
        f"M{column * pitch + 0.4:.1f} {row * pitch + 0.4:.1f}h{side:.1f}v{side:.1f}h-{side:.1f}z"
        for row, read in enumerate(cells)
        for column, filled in enumerate(read)
        if filled
    )
    ground = rect(0, 0, SIGN, SIGN, "paper")
    squares = SvgShape("path", {"d": steps, "class_": f"solid-{hue}"})
    place = {"transform": f"translate({left:.1f} {top:.1f})"}
    return SvgShape("g", place, (ground, squares), title=f"mask: {kind}, of a few tokens")


def _states(held: HeldState, left: Any, top: float, hue: str) -> Shapes:
    """A square for each head's state, arranged in a square; a single one if there are many."""
    count = where(MOST_STATES + 0.5, held.count.value, 1, held.count.value)
    side = floor(root(count - 0.5)) + 1
    pitch = SIGN / side

    def square(i: Any) -> SvgShape:
        row = floor((i + 0.5) / side)
        x = left + (i - row * side) * pitch
        return rect(x, top + row * pitch, pitch * 0.84, pitch * 0.84, f"solid-{hue}")

    return (Many(count, square),)


def _state(held: HeldState) -> Words:
    """`32 × 128 × 128: 2 MiB`: heads, state and head size, and the bytes of all."""
    size = line_of(held.count, " × ", held.rows, " × ", held.columns)
    return size if held.bytes is None else line_of(size, ": ", line_of(held.bytes, unit="bytes"))
