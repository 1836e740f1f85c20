"""What overlaps in the shapes of a drawing: texts, lines through texts and boxes, and what leaves its frame.

Texts are as wide as in the widest font. Unlike the tests in a browser it needs none, and is quick.
"""

import re
from itertools import combinations
from typing import NamedTuple

from archcli.wings.drawing.picture.architecture.shapes import Many
from archcli.wings.drawing.picture.architecture.style import SIZES, width_of

STEP = re.compile(r"([MVHv])([\d. -]+)")
MOVED = re.compile(r"translate\(([\d.-]+) ([\d.-]+)\)")


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float
    name: str

    def meets(self, other, slack=0.4):
        across = self.left < other.right - slack and other.left < self.right - slack
        return across and self.top < other.bottom - slack and other.top < self.bottom - slack


def flat(shapes, x=0.0, y=0.0):
    """All shapes, those inside others too, each with how far it is moved."""
    for shape in shapes:
        if isinstance(shape, Many):
            yield from flat(map(shape.shape, range(int(shape.count))), x, y)
            continue
        moved = MOVED.match(str(shape.attributes.get("transform", "")))
        at = (x + float(moved[1]), y + float(moved[2])) if moved else (x, y)
        yield shape, *at
        if shape.tag != "text":
            yield from flat(shape.inside, *at)


def texts(shapes):
    for shape, dx, dy in flat(shapes):
        if shape.tag == "text":
            place = shape.attributes
            content = shape.content + "".join(piece.content for piece in shape.inside)
            size = re.search(r"size-(\w+)", place["class_"])[1]
            width, points = width_of(content, size), SIZES[size][0]
            left = place["x"] + dx - {"middle": width / 2, "end": width}.get(place["text_anchor"], 0)
            base = place["y"] + dy
            yield Box(left, base - points * 0.75, left + width, base + points * 0.2, content)


def boxes(shapes):
    for shape, dx, dy in flat(shapes):
        at, class_ = shape.attributes, str(shape.attributes.get("class_", ""))
        if shape.tag == "rect" and "s-" in class_ and "held" not in class_ and "hair" not in class_:
            left, top = at["x"] + dx, at["y"] + dy
            yield Box(left, top, left + at["width"], top + at["height"], shape.title)


def lines(shapes):
    """The straight pieces of edges, as boxes without width, and whether each is the stream."""
    for shape, _, _ in flat(shapes):
        class_ = str(shape.attributes.get("class_", ""))
        if shape.tag != "path" or not ("edge s-line" in class_ or "stream" in class_):
            continue
        x = y = 0.0
        for letter, numbers in STEP.findall(shape.attributes["d"]):
            values = [float(number) for number in numbers.split()]
            before = x, y
            x = values[0] if letter in "MH" else x
            y = {"M": values[-1], "V": values[0], "v": y + values[0]}.get(letter, y)
            if letter != "M":
                ends = (*sorted((before[0], x)), *sorted((before[1], y)))
                yield Box(ends[0], ends[2], ends[1], ends[3], "stream" in class_)


def overlaps(shapes, width, height):
    """All faults of a drawing in a frame from (0, 0)."""
    shapes = list(shapes)
    written, framed, edges = [*texts(shapes)], [*boxes(shapes)], [*lines(shapes)]
    frame = Box(1, 0, width - 1, height, "frame")
    yield from (("leaves the frame", it.name) for it in (*written, *framed) if not _within(it, frame))
    yield from (("texts overlap", a.name, b.name) for a, b in combinations(written, 2) if a.meets(b, 0.5))
    yield from (("line through a text", it.name) for it in written for edge in edges if _passes(edge, it))
    yield from (
        ("line through a box", it.name)
        for it in framed
        for edge in edges
        if not edge.name and _passes(edge, it)
    )
    for it in written:
        around = [box for box in framed if _holds(box, it)]
        least = min(around, key=lambda box: (box.right - box.left) * (box.bottom - box.top), default=frame)
        if it.left < least.left + 2 or it.right > least.right - 2:
            yield "leaves its box", it.name


def _within(box, frame):
    inside = frame.left <= box.left and box.right <= frame.right
    return inside and frame.top <= box.top and box.bottom <= frame.bottom


def _holds(box, text):
    x, y = (text.left + text.right) / 2, (text.top + text.bottom) / 2
    return box.left < x < box.right and box.top < y < box.bottom


def _passes(edge, box):
    """An edge may end at a box, but not pass it."""
    across = edge.left < box.right - 1 and edge.right > box.left + 1
    return across and edge.top < box.bottom - 1 and edge.bottom > box.top + 1
