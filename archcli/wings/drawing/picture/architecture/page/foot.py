"""The foot: what is stored as a bar of shares, and what a token reads of it, spread out below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from archcli.render.picture.elements import contrast_of
from archcli.wings.drawing.picture.architecture.numbers import concrete, written
from archcli.wings.drawing.picture.architecture.page.printed import lines_of, number, steps, words_of
from archcli.wings.drawing.picture.architecture.shapes import Many, SvgShape
from archcli.wings.drawing.picture.architecture.style import (
    HUES,
    LEADING,
    Word,
    Words,
    path,
    rect,
    text,
    width_of,
)

if TYPE_CHECKING:
    from archcli.wings.drawing.drawn import Anatomy, Figure, Hue, Share

BAR, TEXTURE = 22.0, 6.0
"""Units of a bar's height, and of the texture along its foot that tells neighbours apart."""
HEADING, GAP = 22.0, 34.0
"""From the top to the first bar, and from it to the second."""
INSET = 10.0
"""Room of a text within its segment, on each side."""
GAP_BETWEEN = 0.4
"""Units between two segments: less than shows in a width that is to scale."""
NARROW = 3.0
"""Below this width a segment leaves no gap to the next."""
WHOLLY = 0.999
"""A share of a component from which on it counts as read as a whole."""
APART = 1.5
"""The contrast from which on neighbours need no texture."""
SAME = 0.999
"""Where a token reads as much as that of all that is stored, one bar says both."""
TEXTURES = {"recurrent": "hatched", "experts": "dotted", "shared": "barred"}
UNITS = {"params": "count", "flops": "flops", "bytes": "bytes", "kv": "bytes", "time": "seconds"}
"""The unit of a quantity that the bars show."""
Drawing = Iterator[SvgShape | Many]


class ShareSegment(NamedTuple):
    """A share as it is drawn: what is written of it, its left edge and width, and its texture."""

    share: Share
    figure: Figure
    left: Any
    width: Any
    part: Any
    texture: str


def is_single(anatomy: Anatomy) -> bool:
    """Whether one bar says what is stored and what is read."""
    stored, read = _sums(anatomy.shares)
    return concrete(read) >= SAME * concrete(stored)


def height(anatomy: Anatomy, width: float) -> float:
    """Units that the foot takes."""
    if not anatomy.shares:
        return heading(anatomy, width) if anatomy.foot else 0.0
    bars = [segments(anatomy.shares, 0.0, width, read=False)]
    if not is_single(anatomy):
        bars.append(segments(anatomy.shares, 0.0, width, read=True))
    labels = LEADING * _levels(bars[-1], 0.0, UNITS[anatomy.shown])
    return heading(anatomy, width) + BAR * len(bars) + GAP * (len(bars) - 1) + labels + 10


def shapes(anatomy: Anatomy, x: float, y: float, width: float) -> Drawing:
    """Both bars between x and x + width, below their title and its lines."""
    if not anatomy.shares and not anatomy.foot:
        return
    unit = UNITS[anatomy.shown]
    yield from titled(anatomy, words_of(anatomy.bars), x, y, width)
    if not anatomy.shares:
        return
    top = y + heading(anatomy, width)
    whole, part = _sums(anatomy.shares)
    stored = segments(anatomy.shares, x, width, read=False)
    if is_single(anatomy):
        yield from bar(stored, top, unit)
        yield from _labels(stored, x, top + BAR, unit)
        return
    marked = width * part / whole
    left = x + width - marked
    yield from bar(stored, top, unit, concrete(left))
    yield rect(left - 1, top - 3, marked + 2, BAR + 6, "none edge s-ink", 2.0)
    below = top + BAR + GAP
    yield path(steps("M", left, top + BAR + 3, "V", below - 10, "H", x, "V", below), "held s-line")
    yield path(steps("M", x + width, top + BAR + 3, "V", below), "held s-line")
    first = number(_sum_read(anatomy), unit)
    caption = (first, Word(f" ({written(part / whole, 'share')}) read for a token"))
    # beside the lines that lead from the mark to the bar of what is read
    is_left = width_of(caption) + INSET < concrete(left) - x
    yield text(
        left - INSET if is_left else left + INSET, below - 15, caption, anchor="end" if is_left else "start"
    )
    read = segments(anatomy.shares, x, width, read=True)
    yield from bar(read, below, unit)
    yield from _labels(read, x, below + BAR, unit)


def titled(anatomy: Anatomy, title: Words, x: float, y: float, width: float) -> Drawing:
    """The title of the bars, and the lines below it."""
    yield text(x, y + 12, title, "head")
    for i, line in enumerate(_lines(anatomy, width), 1):
        yield text(x, y + 12 + LEADING * i, line, ink="muted")


def heading(anatomy: Anatomy, width: float) -> float:
    """Units of the title and its lines."""
    return HEADING + LEADING * len(_lines(anatomy, width))


def _lines(anatomy: Anatomy, width: float) -> list[Words]:
    return [row for line in anatomy.foot for row in lines_of(line, width)]


def _sum_read(anatomy: Anatomy) -> Figure:
    """What a token reads: the key figure of that value, else the sum of the shares."""
    reads = [share.read for share in anatomy.shares]
    part = sum(figure.value for figure in reads)
    known = (figure for figure, _, _ in anatomy.headline if figure.value == part)
    keys = "+".join(figure.key for figure in reads)
    return next(known, reads[0]._replace(value=part, key=keys))


def _sums(shares: Sequence[Share]) -> tuple[Any, Any]:
    return sum(share.stored.value for share in shares), sum(share.read.value for share in shares)


def segments(shares: Sequence[Share], x: float, width: float, *, read: bool) -> list[ShareSegment]:
    """The segments of a bar, first what a token reads in part: what it reads is the end of the bar."""
    whole = _sums(shares)[1 if read else 0]
    ordered = sorted(
        shares, key=lambda share: concrete(share.read.value) >= WHOLLY * concrete(share.stored.value)
    )
    figures = [(share, share.read if read else share.stored) for share in ordered]
    there = [(share, figure) for share, figure in figures if concrete(figure.value) > 0]
    drawn, left = list[ShareSegment](), x
    for (share, figure), texture in zip(there, _textures([share.hue for share, _ in there]), strict=True):
        wide = width * figure.value / whole
        drawn.append(ShareSegment(share, figure, left, wide, figure.value / whole, texture))
        left = left + wide
    return drawn


def _textures(hues: Sequence[Hue]) -> list[str]:
    """Textures of neighbours in a bar, so that two of like lightness differ."""
    textures = list[str]()
    # from the right: of two alike the left one, which is the wider, gets a texture
    for place in reversed(range(len(hues))):
        texture = TEXTURES.get(hues[place], "")
        if textures and textures[-1] == texture and not _differ(hues[place], hues[place + 1]):
            texture = "barred" if texture != "barred" else "dotted"
        textures.append(texture)
    return textures[::-1]


def _differ(first: Hue, second: Hue) -> bool:
    """Whether two solids are told apart by their lightness alone, by day and by night."""
    pairs = zip(_lightness(first), _lightness(second), strict=True)
    return all(max(pair) >= APART * min(pair) for pair in pairs)


def _lightness(hue: Hue) -> tuple[float, float]:
    """What WCAG 2.2 takes for the contrast of a solid, by day and by night."""
    return contrast_of(HUES[hue].solid), contrast_of(HUES[hue].dark_solid)


def _label(segment: ShareSegment, unit: str) -> Words:
    """The name of a share, its figure, and its part of the whole."""
    part = f" {written(segment.part, 'share')}"
    return (Word(f"{segment.share.name} "), number(segment.figure, unit), Word(part))


def _is_inside(segment: ShareSegment, unit: str, mark: float = inf) -> bool:
    """Whether a segment has room for its own label, which no frame that begins at `mark` cuts."""
    end = segment.left + INSET + width_of(_label(segment, unit), "label")
    cut_by = concrete(segment.left) < mark < concrete(end) + 4
    return not cut_by and concrete(end) + INSET <= concrete(segment.left + segment.width)


def bar(
    pieces: Sequence[ShareSegment], y: float, unit: str, mark: float = inf, *, named: bool = True
) -> Drawing:
    """A bar, with the labels that its segments have room for."""
    for segment in pieces:
        title = f"{segment.share.name}: {written(segment.figure.value, unit)}"
        look = f"solid-{segment.share.hue}"
        gap = GAP_BETWEEN if segment is not pieces[-1] and concrete(segment.width) > NARROW else 0.0
        yield rect(segment.left, y, segment.width - gap, BAR, look, figure=segment.figure, title=title)
        if segment.texture:
            yield rect(segment.left, y + BAR - TEXTURE, segment.width - gap, TEXTURE, segment.texture)
        if named and _is_inside(segment, unit, mark):
            yield text(segment.left + INSET, y + 13, _label(segment, unit), "label", _ink(segment.share.hue))


def _ink(hue: Hue) -> str:
    """The class of text on a solid: the lighter solids carry dark text by day, too."""
    return "over" if hue in {"dense", "plain"} else "on"


class Label(NamedTuple):
    """The label of a narrow segment: its leader, and the ends of its text, which is left or right of that."""

    segment: ShareSegment
    leader: float
    start: float
    end: float

    def spans(self, x: float) -> bool:
        """Whether a vertical line passes through the text, or close to its end."""
        return (
            self.leader < x < self.end + 3 if self.start == self.leader else self.start - 3 < x < self.leader
        )


def _levels(pieces: Sequence[ShareSegment], x: float, unit: str) -> int:
    """Rows of labels below a bar."""
    return max((level for _, level in _placed(pieces, x, unit)), default=-1) + 1


def _placed(pieces: Sequence[ShareSegment], x: float, unit: str) -> list[tuple[Label, int]]:
    """Labels of narrow segments with their rows: no leader passes through a text, no two texts overlap."""
    waiting = _left_labels(pieces, x, unit)
    placed = list[tuple[Label, int]]()
    while waiting:
        free = (it for it in waiting if not any(it.spans(near.leader) for near in waiting if near is not it))
        label = next(free, waiting[0])
        waiting.remove(label)
        level = 1 + max((row for near, row in placed if label.spans(near.leader)), default=-1)
        while any(
            row == level and label.start < near.end + 8 and near.start < label.end + 8 for near, row in placed
        ):
            level += 1
        placed.append((label, level))
    return placed


def _left_labels(pieces: Sequence[ShareSegment], x: float, unit: str) -> list[Label]:
    """Labels left of their leaders; right of them near the left edge, or where they would cut such a one."""
    labels = list[Label]()
    for segment in pieces:
        if _is_inside(segment, unit):
            continue
        room, leader = width_of(_label(segment, unit)), concrete(segment.left + segment.width / 2)
        left, right = Label(segment, leader, leader - room - 5, leader), leader + room + 5
        turned = left.start < x or any(
            near.start == near.leader and left.spans(near.leader) for near in labels
        )
        labels.append(Label(segment, leader, leader, right) if turned else left)
    return labels


def _labels(pieces: Sequence[ShareSegment], x: float, y: float, unit: str) -> Drawing:
    """Labels below a bar, each beside a leader from its segment."""
    for label, level in _placed(pieces, x, unit):
        centre = label.segment.left + label.segment.width / 2
        base = y + LEADING * (level + 1)
        yield path(steps("M", centre, y + 1, "V", base - 4), "edge s-line")
        anchor, at = ("start", centre + 5) if label.start == label.leader else ("end", centre - 5)
        yield text(at, base, _label(label.segment, unit), anchor=anchor)
