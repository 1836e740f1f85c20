"""Shapes of a drawing as polygons and lines in its units: corners are square, curves are chords."""

import re
from itertools import pairwise
from math import cos, pi, sin

CHORDS = 12
NUMBERS = {"M": 2, "L": 2, "H": 1, "V": 1, "C": 6, "S": 4, "Q": 4, "T": 2, "A": 7, "Z": 0}
TOKEN = re.compile(r"[MLHVCSQTAZmlhvcsqtaz]|-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?")


def outlines(shape):
    """The lines of a shape as [(points, whether closed)], with its transform applied."""
    a, b, c, d, e, f = shape["matrix"]
    return [
        ([(a * x + c * y + e, b * x + d * y + f) for x, y in points], closed)
        for points, closed in OUTLINE[shape["tag"]](shape["geometry"])
    ]


def _rectangle(geometry):
    x, y, width, height, _ = geometry
    return [([(x, y), (x + width, y), (x + width, y + height), (x, y + height)], True)]


def _round(x, y, across, down):
    turns = (2 * pi * i / (2 * CHORDS) for i in range(2 * CHORDS))
    return [([(x + across * cos(turn), y + down * sin(turn)) for turn in turns], True)]


def _points(text, *, closed):
    numbers = [float(number) for number in TOKEN.findall(text)]
    return [(list(zip(numbers[::2], numbers[1::2], strict=True)), closed)]


def _path(text):
    """Subpaths; of a curve its chords, of an arc its end."""
    lines, here, letter = [], (0.0, 0.0), ""
    tokens = TOKEN.findall(text)
    while tokens:
        letter = tokens.pop(0) if tokens[0].isalpha() else {"M": "L", "m": "l"}.get(letter, letter)
        kind = letter.upper()
        values, tokens = [float(v) for v in tokens[: NUMBERS[kind]]], tokens[NUMBERS[kind] :]
        if kind == "Z":
            lines[-1] = (lines[-1][0], True)
            here = lines[-1][0][0]
            continue
        points = _absolute(kind, values, here if letter.islower() else (0.0, 0.0), here)
        if kind == "M":
            lines.append((points, False))
        else:
            if lines[-1][1]:  # after Z a line starts where that one did
                lines.append(([here], False))
            lines[-1][0].extend(_chords(kind, here, points))
        here = points[-1]
    return lines


def _absolute(kind, values, origin, here):
    if kind == "H":
        return [(origin[0] + values[0], here[1])]
    if kind == "V":
        return [(here[0], origin[1] + values[0])]
    values = values[-2:] if kind == "A" else values
    return [(origin[0] + x, origin[1] + y) for x, y in zip(values[::2], values[1::2], strict=True)]


def _chords(kind, start, points):
    if kind not in {"C", "Q"}:
        return points[-1:]
    return [_bezier([start, *points], i / CHORDS) for i in range(1, CHORDS + 1)]


def _bezier(points, share):
    while len(points) > 1:
        points = [
            tuple(p + (q - p) * share for p, q in zip(one, two, strict=True)) for one, two in pairwise(points)
        ]
    return points[0]


OUTLINE = {
    "rect": _rectangle,
    "line": lambda ends: [([(ends[0], ends[1]), (ends[2], ends[3])], False)],
    "circle": lambda circle: _round(*circle, circle[2]),
    "ellipse": lambda ellipse: _round(*ellipse),
    "path": _path,
    "polyline": lambda text: _points(text, closed=False),
    "polygon": lambda text: _points(text, closed=True),
}


def segments(lines):
    """The straight pieces of outlines, as ((x1, y1), (x2, y2))."""
    for points, closed in lines:
        yield from pairwise([*points, points[0]] if closed else points)


def bounds(lines):
    """The box around outlines: left, top, right, bottom."""
    xs, ys = zip(*(point for points, _ in lines for point in points), strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def within(point, lines):
    """Whether a point lies inside outlines, by the even-odd rule."""
    x, y = point
    crossed = 0
    for (x1, y1), (x2, y2) in segments([(points, True) for points, _ in lines]):
        if (y1 > y) != (y2 > y):
            crossed += x < x1 + (y - y1) / (y2 - y1) * (x2 - x1)
    return crossed % 2 == 1
