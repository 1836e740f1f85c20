"""What is seen of a measured drawing: texts with their boxes, shapes with their outlines, paint."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from archcli.render.picture import labels
from drawn.outlines import bounds, outlines, segments, within

PAD = 0.14
"""The share of a text's height that is empty above and below its letters."""
TEXTURE = "url("
TEXTURED = 0.15
"""The share of a shape that a texture must cover to be seen as its own."""


@dataclass
class Mark:
    """A shape: its class, its place in the order of painting, its lines, and `paint` by colour scheme."""

    tag: str
    name: str
    order: int
    lines: list
    data: dict
    paint: dict
    bounds: tuple = ()
    textures: set = field(default_factory=set)

    @property
    def filled(self):
        paint = self.paint["light"]
        return paint["fill"] != "none" and paint["filled"] > 0.05

    @property
    def solid(self):
        return self.filled and not self.paint["light"]["fill"].startswith(TEXTURE)

    @property
    def stroked(self):
        paint = self.paint["light"]
        return paint["stroke"] != "none" and paint["stroked"] > 0.05

    @property
    def is_box(self):
        """Whether it is a rectangle that holds text or quantities, as drawings name them."""
        return self.tag == "rect" and "s-" in self.name

    @property
    def is_line(self):
        """Whether it is a line and nothing else."""
        return self.stroked and not self.filled and self.tag != "rect"

    @property
    def figure(self):
        """The address of the number that it draws."""
        return tuple(sorted((key, value) for key, value in self.data.items() if key != "value"))


class Seen:
    """A drawing as `measuring.measured` found it."""

    def __init__(self, layout):
        self.view = layout["view"]
        self.foreign = layout["foreign"]
        self.contents = [text["content"] for text in layout["texts"]]
        self.orders = [text["order"] for text in layout["texts"]]
        self.inks = {scheme: colours["texts"] for scheme, colours in layout["colours"].items()}
        self.settings = {
            name: (np.array(box["places"]).reshape(-1, 4), box["view"])
            for name, box in layout["boxes"].items()
        }
        paints = {scheme: colours["shapes"] for scheme, colours in layout["colours"].items()}
        self.marks = [
            Mark(
                tag=shape["tag"],
                name=shape["name"],
                order=shape["order"],
                lines=outlines(shape),
                data=shape["data"],
                paint={scheme: painted[i] for scheme, painted in paints.items()},
            )
            for i, shape in enumerate(layout["shapes"])
            if shape["geometry"]
        ]
        self.marks = [mark for mark in self.marks if any(points for points, _ in mark.lines)]
        for mark in self.marks:
            mark.bounds = bounds(mark.lines)
        self._see_textures()

    def _see_textures(self):
        """Note on solid shapes which textures lie on them."""
        textures = [mark for mark in self.marks if mark.filled and not mark.solid]
        for mark in self.marks if textures else ():
            left, top, right, bottom = mark.bounds
            for texture in textures:
                x1, y1, x2, y2 = texture.bounds
                across, down = min(right, x2) - max(left, x1), min(bottom, y2) - max(top, y1)
                if across > 0 and down > 0 and across * down > TEXTURED * (right - left) * (bottom - top):
                    mark.textures.add(texture.paint["light"]["fill"])

    @cached_property
    def letters(self):
        """Boxes of the texts' letters by setting, in px of the page."""
        return {name: (lettered(places), view) for name, (places, view) in self.settings.items()}

    @cached_property
    def placed(self):
        """Boxes of the texts' letters in the drawing's units: for each text the widest of all settings."""
        x, y, width, _ = self.view
        boxes = [
            np.array([x, y, x, y]) + letters * (width / view[0]) for letters, view in self.letters.values()
        ]
        low, high = np.min(boxes, axis=0), np.max(boxes, axis=0)
        return np.concatenate([low[:, :2], high[:, 2:]], axis=1)

    @cached_property
    def ends(self):
        """Bounds of all marks as an array."""
        return np.array([mark.bounds for mark in self.marks]).reshape(-1, 4)

    def under(self, i, point):
        """The mark that is the ground of text i at a point; None where nothing is painted."""
        x, y = point
        e = self.ends
        near = np.flatnonzero((e[:, 0] <= x) & (x <= e[:, 2]) & (e[:, 1] <= y) & (y <= e[:, 3]))
        holders = (self.marks[n] for n in near[::-1])
        return next((mark for mark in holders if mark.order < self.orders[i] and _holds(mark, point)), None)

    def over(self, i, point):
        """Whether something is painted over text i at a point."""
        return any(mark.order > self.orders[i] and _holds(mark, point) for mark in self.marks)


def _holds(mark, point):
    left, top, right, bottom = mark.bounds
    inside = left <= point[0] <= right and top <= point[1] <= bottom
    return mark.solid and inside and within(point, mark.lines)


def lettered(places):
    """Boxes of letters within boxes of lines."""
    boxes = places.copy()
    height = boxes[:, 3] - boxes[:, 1]
    boxes[:, 1] += PAD * height
    boxes[:, 3] -= PAD * height
    return boxes


def crosses(ends, box):
    """Whether a straight line passes through a box."""
    (x, y), (x2, y2) = ends
    return labels.crosses(labels.Segment(x, y, x2, y2), labels.Box(*box))


def edges(mark):
    """The straight pieces of a mark."""
    return segments(mark.lines)
