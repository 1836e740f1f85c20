"""The picture of `archcli memory`: each moment by its parts, the peak by batch size, and devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from archcli.render.picture.elements import element, ink_on, sheet, text, titled
from archcli.render.picture.files import save_drawing
from archcli.render.picture.labels import text_width
from archcli.render.plain import heading
from archcli.render.values import short

if TYPE_CHECKING:
    from archcli.measure.memory.answers.curve import BatchCurve
    from archcli.measure.report import Report

WIDTH, LINE = 720, 20
BAR, STEP, NAMES = 26, 36, 110
"""Pixels of a bar, from one to the next, and of the names to their left."""
CHART, TICK = 260, 70
COLOURS = {
    "weights": "#0072b2",
    "gradients": "#56b4e9",
    "optimizer": "#009e73",
    "kept": "#e69f00",
    "loss": "#d55e00",
    "gathered": "#cc79a7",
    "temporaries": "#8a8a8a",
    "cache": "#7b5ea7",
}
"""By part: the colour-blind-safe palette of Okabe and Ito (2008)."""


class Plotted(NamedTuple):
    """Shapes, and the y below them."""

    shapes: list[str]
    bottom: float


def save_memory(report: Report, curve: BatchCurve, output: Path) -> None:
    """Write the picture of a report as its file's suffix says; ArchError for an unknown one."""
    save_drawing(heading(report), lambda: memory_svg(report, curve), output)


def memory_svg(report: Report, curve: BatchCurve) -> str:
    """The picture as one SVG file, for light and dark backgrounds."""
    moments = _moments(report.totals["moments"], 3 * LINE)
    chart = _chart(curve, moments.bottom + 2 * LINE)
    shapes = [
        text(0, LINE - 6, heading(report), "title", style="font-size: 15px"),
        text(0, 2 * LINE, "The highest point of each moment, by what it is made of", "name"),
        *moments.shapes,
        *chart.shapes,
    ]
    return sheet(shapes, WIDTH, chart.bottom)


def _moments(moments: Sequence[Mapping[str, Any]], top: float) -> Plotted:
    """A stacked bar for each moment, and the legend."""
    most = max(moment["peak_bytes"] for moment in moments)
    room = WIDTH - NAMES - TICK
    shapes: list[str] = []
    for i, moment in enumerate(moments):
        y = top + i * STEP
        shapes.append(text(0, y + 17, moment["moment"]))
        x = float(NAMES)
        for name, size in moment["parts"].items():
            width = room * size / most
            shapes += _segment(name, size, x, y, width)
            x += width
        shapes.append(text(x + 6, y + 17, short(moment["peak_bytes"], "bytes")))
    used = {name for moment in moments for name, size in moment["parts"].items() if size}
    bottom = top + len(moments) * STEP
    return Plotted([*shapes, *_legend(used, bottom)], bottom + LINE)


def _segment(name: str, size: int, x: float, y: float, width: float) -> Iterator[str]:
    if not size:
        return
    colour = COLOURS[name]
    shape = element("rect", x=x, y=y, width=width, height=BAR, fill=colour)
    label = short(size, "bytes")
    if text_width(label) + 8 <= width:
        shape += text(x + width / 2, y + 17, label, None, "middle", style=f"fill: {ink_on(colour)}")
    yield titled(shape, f"{name}: {size:,} bytes")


def _legend(used: set[str], y: float) -> Iterator[str]:
    x = float(NAMES)
    for name, colour in COLOURS.items():
        if name in used:
            yield element("rect", x=x, y=y, width=12, height=12, rx=2, fill=colour)
            yield text(x + 16, y + 10, name)
            x += 32 + text_width(name)


def _chart(curve: BatchCurve, top: float) -> Plotted:
    """The peak over batch sizes that double, and a line for each device."""
    most = 1.08 * max(size for _, size in (*curve.points, *curve.devices))
    left, right, bottom = float(TICK), WIDTH - 110.0, top + LINE + CHART
    step = (right - left) / max(len(curve.points) - 1, 1)

    def up(size: float) -> float:
        return bottom - CHART * size / most

    title = "The peak by batch size, with what is beyond the model, and the memory of devices"
    shapes = [text(0, top, title, "name")]
    shapes.append(element("line", x1=left, y1=bottom, x2=right, y2=bottom, class_="roof"))
    below = bottom + 18
    for name, size in sorted(curve.devices, key=lambda device: device[1]):
        y = up(size)
        below = min(below - 14, y + 4)  # names do not cover each other
        line = element("line", x1=left, y1=y, x2=right, y2=y, class_="leader", stroke_dasharray="5 4")
        shapes.append(titled(line, f"{name}: {size:,} bytes"))
        shapes += [
            text(right + 6, below, name, "soft"),
            text(left - 6, below, short(size, "bytes"), "soft", "end"),
        ]
    points = [(left + i * step, up(size)) for i, (_, size) in enumerate(curve.points)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    shapes.append(element("polyline", points=path, fill="none", stroke=COLOURS["weights"], stroke_width=2))
    for (x, y), (batch, size) in zip(points, curve.points, strict=True):
        mark = element("circle", cx=x, cy=y, r=4, fill=COLOURS["weights"])
        shapes.append(titled(mark, f"batch size {batch:,}: {size:,} bytes"))
        shapes.append(text(x, bottom + 16, f"{batch:,}", "soft", "middle"))
    shapes.append(text((left + right) / 2, bottom + 34, "batch size", "soft", "middle"))
    return Plotted(shapes, bottom + 40)
