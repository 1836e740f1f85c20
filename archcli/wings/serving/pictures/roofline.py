"""The roofline diagram: operators by arithmetic intensity and speed, on two logarithmic axes.

Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785. A mark's area is its share of the time.
Ceilings were measured in the same process; without them only the marks are drawn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor, hypot, log10, sqrt
from typing import Any, NamedTuple

from archcli.render.picture.elements import colour, element, text, titled
from archcli.render.picture.labels import Box, Canvas, Circle, Segment, crosses, leader, text_width
from archcli.units import PREFIXES, scaled

LAYER = re.compile(r"\blayers\.(?:\*|\d+)\.")
"""What all names of a layer begin with, each of `layers.*.q_proj + layers.0.k_proj` too."""
STEPS = (1, 2, 5)
MOST_TICKS = 8
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
AXIS_PREFIXES = ("", "K", "M", "G", "T", "P", "E")


def ticks(values: Sequence[float]) -> list[float]:
    """1, 2 and 5 times powers of ten, from at most the least value to at least the largest.

    Of a range of many, the powers of ten between its ends.
    """
    least, most = floor(log10(min(values))), ceil(log10(max(values)))
    steps = [step * 10.0**power for power in range(least, most + 1) for step in STEPS]
    below = [step for step in steps if step <= min(values)]
    above = [step for step in steps if step >= max(values) and step > below[-1]]
    within = [step for step in steps if below[-1] <= step <= above[0]]
    if len(within) <= MOST_TICKS:
        return within
    # floats may be compared here: 1 * 10.0**power is exactly 10.0**power
    powers = [step for step in within[1:-1] if step in {10.0**power for power in range(least, most + 1)}]
    return [within[0], *powers, within[-1]]


def prefixed(value: float) -> str:
    """A power of ten from 1 up with a metric prefix: 100G, 1T."""
    power = min(max(round(log10(value)) // 3, 0), len(AXIS_PREFIXES) - 1)
    return f"{value / 1000.0**power:g}{PREFIXES[power]}"


def powers_of_ten(decades: Sequence[int]) -> list[str]:
    """Labels of an axis: 0.01, 1 and 1,000; as 10⁻⁶ where one of them would be long."""
    if min(decades) < -3 or max(decades) > 5:  # noqa: PLR2004
        return [f"10{str(decade).translate(SUPERSCRIPTS)}" for decade in decades]
    return [f"{10.0**decade:,g}" if decade < 0 else f"{10**decade:,}" for decade in decades]


class LogScale(NamedTuple):
    """Both axes by the logarithms of their ends, in a frame whose margin keeps marks off its edges."""

    x: tuple[float, float]
    y: tuple[float, float]
    frame: Box
    margin: float

    @property
    def decade_width(self) -> float:
        """Pixels of a decade across."""
        return (self.frame.right - self.frame.left - 2 * self.margin) / (self.x[1] - self.x[0])

    @property
    def decade_height(self) -> float:
        """Pixels of a decade up."""
        return (self.frame.bottom - self.frame.top - 2 * self.margin) / (self.y[1] - self.y[0])

    def at(self, intensity: float, speed: float) -> tuple[float, float]:
        """The point of a value of each axis."""
        across = (log10(intensity) - self.x[0]) * self.decade_width
        up = (log10(speed) - self.y[0]) * self.decade_height
        return self.frame.left + self.margin + across, self.frame.bottom - self.margin - up

    def intensities(self) -> tuple[float, float]:
        """The values at the left and the right edge of the frame."""
        beyond = self.margin / self.decade_width
        return 10.0 ** (self.x[0] - beyond), 10.0 ** (self.x[1] + beyond)

    def speeds(self) -> tuple[float, float]:
        """The values at the lower and the upper edge of the frame."""
        beyond = self.margin / self.decade_height
        return 10.0 ** (self.y[0] - beyond), 10.0 ** (self.y[1] + beyond)


LEFT, HEIGHT, BELOW = 48, 360, 48
"""Pixels of the tick labels on the left, of the diagram, and of those below it."""
LARGEST, SMALLEST, WIDE = 26.0, 2.0, 912
"""Radius of a mark with half of the time in a drawing of WIDE pixels, and of the smallest mark."""
MOST_NAMED = 8
"""Marks with a name in the drawing, where there is room; all have one as a tooltip."""
MOST_TOGETHER = 3
"""The most names in one label, of marks on top of one another."""
GAPS = (3, 14, 28, 44, 62)
"""Pixels from a mark to its name; beyond the first a line leads to it."""
TALL, BASELINE = 16, 12
"""Pixels of a line of text, and from its top to its baseline."""
TICK = 44
"""The most pixels of a tick's label."""
SLOPES = (("dram_bytes_per_s", "memory"), ("cache_bytes_per_s", "cache"))

Row = Mapping[str, Any]


def roofline(
    rows: Sequence[Row], ceilings: Mapping[str, float] | None, top: float, width: float
) -> Iterator[str]:
    """Marks, ceilings and axes. Operators that compute nothing or take no time have no mark."""
    marks = [row for row in rows if row["executed_flops"] and row["bytes"] and row["seconds"] > 0]
    if not marks:
        yield text(0, top + 20, "No operator computed anything.", "soft")
        return
    # the largest first: smaller ones are drawn over it, and it is the first to get a name
    marks.sort(key=lambda row: -row["time_share"])
    largest = LARGEST * min(1.0, width / WIDE)
    # area proportional to the share: the radius to its square root
    radii = [max(SMALLEST, largest * sqrt(min(row["time_share"], 1.0) / 0.5)) for row in marks]
    frame = Box(LEFT, top, width, top + HEIGHT)
    scale = _scale(marks, ceilings or {}, frame, radii[0] + 4)
    circles = [Circle(*scale.at(*_position(row)), radius) for row, radius in zip(marks, radii, strict=True)]
    roofs = list(_ceiling_lines(scale, ceilings or {}))
    canvas = Canvas(frame, circles=circles, segments=[line for _, line in roofs])
    yield from _axes(scale)
    for name, line in reversed(roofs):  # the peak, which has most room, last
        dashes = None if line.y1 == line.y2 else "5 4"
        yield element("line", **line._asdict(), class_="roof", stroke_dasharray=dashes)
        boxes = _boxes_along(line, text_width(name), below=name.startswith("memory"))
        yield from _label(name, canvas.first_free(boxes), "soft mark")
    yield from (_mark(row, circle) for row, circle in zip(marks, circles, strict=True))
    for names, circle in _blobs(marks, circles)[:MOST_NAMED]:
        yield from _blob_label(canvas, names, circle)


def _position(row: Row) -> tuple[float, float]:
    return row["executed_flops"] / row["bytes"], row["executed_flops"] / row["seconds"]


def _scale(marks: Sequence[Row], ceilings: Mapping[str, float], frame: Box, margin: float) -> LogScale:
    positions = [_position(row) for row in marks]
    across, up = [log10(x) for x, _ in positions], [log10(y) for _, y in positions]
    highest = [log10(ceilings["gemm_flops_per_s"])] if ceilings.get("gemm_flops_per_s") else []
    least, most = floor(min(across)), ceil(max(across))
    return LogScale(
        # one decade at least, as its width divides; 0.1 keeps the peak off the upper edge
        (least, max(most, least + 1)),
        (floor(min(up)), ceil(max([*up, *highest]) + 0.1)),
        frame,
        margin,
    )


def _axes(scale: LogScale) -> Iterator[str]:
    left, top, right, bottom = scale.frame
    every = ceil(TICK / scale.decade_width)
    decades = range(int(scale.x[0]), int(scale.x[1]) + 1)
    for i, (decade, label) in enumerate(zip(decades, powers_of_ten(decades), strict=True)):
        x, _ = scale.at(10.0**decade, 10.0 ** scale.y[0])
        yield element("line", x1=x, y1=top, x2=x, y2=bottom, class_="grid")
        if i % every == 0:
            yield text(min(x, right - text_width(label) / 2), bottom + 20, label, "soft", "middle")
    for decade in range(int(scale.y[0]), int(scale.y[1]) + 1):
        _, y = scale.at(10.0 ** scale.x[0], 10.0**decade)
        yield element("line", x1=left, y1=y, x2=right, y2=y, class_="grid")
        yield text(0, y + 4, prefixed(10.0**decade), "soft")
    yield text(0, top - 8, "FLOP/s", "soft")
    yield text(right, bottom + 42, "FLOP per byte", "soft", "end")


def _ceiling_lines(scale: LogScale, ceilings: Mapping[str, float]) -> Iterator[tuple[str, Segment]]:
    """(name, line) of each ceiling: the peak, and the bandwidths, where speed = bandwidth * intensity."""
    peak = ceilings.get("gemm_flops_per_s")
    if not peak:
        return
    _, y = scale.at(1.0, peak)
    yield (
        f"matrix products, {scaled(peak, 1000, PREFIXES, ' ')}FLOP/s",
        Segment(scale.frame.left, y, scale.frame.right, y),
    )
    least, most = scale.intensities()
    for key, name in SLOPES:
        bandwidth = ceilings.get(key)
        if bandwidth:
            # within the frame, and no further right than where products become the limit
            start, end = max(least, scale.speeds()[0] / bandwidth), min(peak / bandwidth, most)
            if start < end:
                ends = (*scale.at(start, start * bandwidth), *scale.at(end, end * bandwidth))
                yield f"{name}, {bandwidth / 1e9:,.0f} GB/s", Segment(*ends)


def _boxes_along(line: Segment, width: float, *, below: bool) -> Iterator[Box]:
    """Candidate boxes for the name of a line, along it: first on one side, then on the other."""
    for under in (below, not below):
        for part in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9, 0.99):
            x, y = line.x1 + part * (line.x2 - line.x1), line.y1 + part * (line.y2 - line.y1)
            left, top = (x + 4, y + 4) if under else (x - 4 - width, y - 4 - TALL)
            yield Box(left, top, left + width, top + TALL)


def _boxes_around(circle: Circle, width: float, gap: float) -> Iterator[Box]:
    """Candidate boxes for the name of a mark: above, below, right, left, and in the corners."""
    x, y, away = circle.x, circle.y, circle.radius + gap
    middle, near, far = x - width / 2, x + away, x - away - width
    for left, top in (
        (middle, y - away - TALL),
        (middle, y + away),
        (near, y - TALL / 2),
        (far, y - TALL / 2),
        (near, y - away - TALL),
        (far, y - away - TALL),
        (near, y + away),
        (far, y + away),
    ):
        yield Box(left, top, left + width, top + TALL)


def _blobs(marks: Sequence[Row], circles: Sequence[Circle]) -> list[tuple[list[str], Circle]]:
    """(names, largest circle) of marks whose centres nearly coincide, so that they look like one."""
    blobs: list[tuple[list[str], Circle]] = []
    for row, circle in zip(marks, circles, strict=True):
        name = LAYER.sub("", row["path"])
        near = (names for names, largest in blobs if _coincide(largest, circle))
        names = next(near, None)
        if names is None:
            blobs.append(([name], circle))
        else:
            names.append(name)
    return blobs


def _coincide(largest: Circle, circle: Circle) -> bool:
    return hypot(largest.x - circle.x, largest.y - circle.y) < largest.radius / 2


def _blob_label(canvas: Canvas, names: Sequence[str], circle: Circle) -> list[str]:
    """The label of a blob: some names, or one if there is little room; empty without room."""
    for shown in (min(len(names), MOST_TOGETHER), 1):
        hidden = len(names) - shown
        more = f" and {hidden} more" if hidden else ""
        shapes = list(_blob_text(canvas, ", ".join(names[:shown]) + more, circle))
        if shapes:
            return shapes
    return []


def _is_clear(canvas: Canvas, line: Segment, circle: Circle) -> bool:
    """Whether a line to a mark crosses no text and no larger mark."""
    larger = (Box(x - r, y - r, x + r, y + r) for x, y, r in canvas.circles if r > circle.radius)
    return not any(crosses(line, box) for box in (*canvas.boxes, *larger))


def _blob_text(canvas: Canvas, content: str, circle: Circle) -> Iterator[str]:
    """A text close to a mark, or with a leader line; nothing without free room."""
    for gap in GAPS:
        boxes = _boxes_around(circle, text_width(content), gap)
        box = canvas.first_free(box for box in boxes if _is_clear(canvas, leader(box, circle), circle))
        if box is not None:
            if gap > GAPS[0]:
                line = leader(box, circle)
                canvas.segments.append(line)
                yield element("line", **line._asdict(), class_="leader")
            yield from _label(content, box, "mark")
            return


def _label(name: str, box: Box | None, class_: str) -> Iterator[str]:
    if box is not None:
        yield text((box.left + box.right) / 2, box.top + BASELINE, name, class_, "middle")


def _mark(row: Row, circle: Circle) -> str:
    intensity, speed = _position(row)
    fill = colour(row["class"])
    shape = element(
        "circle", cx=circle.x, cy=circle.y, r=circle.radius, fill=fill, fill_opacity=0.65, stroke=fill
    )
    rates = f"{intensity:.3g} FLOP/byte, {scaled(speed, 1000, PREFIXES, ' ')}FLOP/s"
    return titled(shape, f"{row['path']}: {row['time_share']:.1%} of the time, {rates}")
