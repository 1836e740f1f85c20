"""The roofline diagram: operators by arithmetic intensity and speed, below the machine's ceilings.

Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785. A mark's area is its share of the time.
Ceilings are those measured in the same process; without them only the marks are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import atan2, ceil, degrees, floor, log10, sqrt
from typing import Any, NamedTuple

from archcli.render.picture.elements import colour, element, text, titled

LEFT, WIDTH, HEIGHT = 90, 840, 380
LARGEST = 26.0
"""Radius of a mark that takes half of the time."""
MOST_NAMED = 8
"""Marks with a name in the drawing; all have one as a tooltip."""
APART = (90, 30)
"""Pixels between two names, across and up, so that they do not overlap."""
SLOPES = (("dram_bytes_per_s", "memory"), ("cache_bytes_per_s", "cache"))

Row = Mapping[str, Any]


class _Scale(NamedTuple):
    """The scale of the diagram: decades of both axes, and the top in pixels."""

    x: tuple[int, int]
    y: tuple[int, int]
    top: float

    def at(self, intensity: float, speed: float) -> tuple[float, float]:
        across = (log10(intensity) - self.x[0]) / (self.x[1] - self.x[0])
        up = (log10(speed) - self.y[0]) / (self.y[1] - self.y[0])
        return LEFT + WIDTH * across, self.top + HEIGHT * (1 - up)


def roofline(rows: Sequence[Row], ceilings: Mapping[str, float] | None, top: float) -> Iterator[str]:
    """Marks, ceilings and axes. Operators that compute nothing or take no time have no mark."""
    marks = [row for row in rows if row["executed_flops"] and row["bytes"] and row["seconds"] > 0]
    if not marks:
        yield text(LEFT, top + 20, "No operator computed anything.", "soft")
        return
    scale = _scale(marks, ceilings or {}, top)
    yield from _axes(scale)
    yield from _roofs(scale, ceilings or {})
    named: list[tuple[float, float]] = []
    for row in sorted(marks, key=lambda row: -row["time_share"]):
        x, y = scale.at(*_position(row))
        free = len(named) < MOST_NAMED and all(
            abs(x - named_x) > APART[0] or abs(y - named_y) > APART[1] for named_x, named_y in named
        )
        named += [(x, y)] if free else []
        yield _mark(scale, row, named=free)


def _position(row: Row) -> tuple[float, float]:
    return row["executed_flops"] / row["bytes"], row["executed_flops"] / row["seconds"]


def _scale(marks: Sequence[Row], ceilings: Mapping[str, float], top: float) -> _Scale:
    positions = [_position(row) for row in marks]
    across, up = [log10(x) for x, _ in positions], [log10(y) for _, y in positions]
    highest = [log10(ceilings["gemm_flops_per_s"])] if ceilings.get("gemm_flops_per_s") else []
    least, most = floor(min(across)), ceil(max(across))
    return _Scale((least, max(most, least + 1)), (floor(min(up)), ceil(max([*up, *highest]) + 0.1)), top)


def _axes(scale: _Scale) -> Iterator[str]:
    bottom = scale.top + HEIGHT
    for decade in range(scale.x[0], scale.x[1] + 1):
        x, _ = scale.at(10.0**decade, 10.0 ** scale.y[0])
        yield element("line", x1=x, y1=scale.top, x2=x, y2=bottom, class_="grid")
        yield text(x, bottom + 16, f"{10.0**decade:g}", "soft", "middle")
    for decade in range(scale.y[0], scale.y[1] + 1):
        _, y = scale.at(10.0 ** scale.x[0], 10.0**decade)
        yield element("line", x1=LEFT, y1=y, x2=LEFT + WIDTH, y2=y, class_="grid")
        yield text(LEFT - 8, y + 4, f"{10.0 ** (decade - 9):g}", "soft", "end")
    yield text(LEFT + WIDTH / 2, bottom + 36, "FLOP per byte, both as executed one by one", "soft", "middle")
    yield text(LEFT - 8, scale.top - 12, "GFLOP/s", "soft", "end")


def _roofs(scale: _Scale, ceilings: Mapping[str, float]) -> Iterator[str]:
    peak = ceilings.get("gemm_flops_per_s")
    if not peak:
        return
    least, most = 10.0 ** scale.x[0], 10.0 ** scale.x[1]
    x1, y = scale.at(least, peak)
    x2, _ = scale.at(most, peak)
    yield element("line", x1=x1, y1=y, x2=x2, y2=y, class_="roof")
    yield text(x2 - 4, y - 6, f"matrix products, {peak / 1e9:,.0f} GFLOP/s", "soft", "end")
    for key, name in SLOPES:
        if ceilings.get(key):
            yield from _slope(scale, ceilings[key], peak, name)


def _slope(scale: _Scale, bandwidth: float, peak: float, name: str) -> Iterator[str]:
    """speed = bandwidth * intensity, from where it enters the drawing to the peak."""
    start = max(10.0 ** scale.x[0], 10.0 ** scale.y[0] / bandwidth)
    end = min(peak / bandwidth, 10.0 ** scale.x[1])
    if start >= end:
        return
    (x1, y1), (x2, y2) = scale.at(start, start * bandwidth), scale.at(end, end * bandwidth)
    yield element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="roof", stroke_dasharray="5 4")
    turned = -degrees(atan2(y1 - y2, x2 - x1))
    yield text(x1 + 10, y1 - 12, f"{name}, {bandwidth / 1e9:,.0f} GB/s", "soft", turned=turned)


def _mark(scale: _Scale, row: Row, *, named: bool) -> str:
    intensity, speed = _position(row)
    x, y = scale.at(intensity, speed)
    radius = max(2.0, LARGEST * sqrt(row["time_share"] / 0.5))
    shape = element(
        "circle",
        cx=x,
        cy=y,
        r=radius,
        fill=colour(row["class"]),
        fill_opacity=0.65,
        stroke=colour(row["class"]),
    )
    if named:
        shape += text(x, y - radius - 4, row["path"].removeprefix("layers.*."), "soft", "middle")
    rates = f"{intensity:.3g} FLOP/byte, {speed / 1e9:,.1f} GFLOP/s"
    return titled(shape, f"{row['path']}: {row['time_share']:.1%} of the time, {rates}")
