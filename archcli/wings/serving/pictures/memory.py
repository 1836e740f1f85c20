"""The picture of `archcli memory`: bytes of each moment, the peak by batch size, and devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from archcli.render.picture.elements import element, ink_on, paragraph, sheet, text, titled
from archcli.render.picture.files import save_drawing
from archcli.render.picture.labels import text_width
from archcli.render.plain import heading
from archcli.render.values import short

if TYPE_CHECKING:
    from archcli.measure.report import Report
    from archcli.wings.serving.memory.answers.tables import BatchCurve

WIDTH, LINE = 720.0, 20
BAR, STEP, NAMES = 26, 36, 110
"""Pixels of a bar, from bar to bar, and of the names to their left."""
CHART, TICK, NAME, NAME_AND_SIZE = 260, 70, 100, 170
"""Pixels of the chart's height, of the amounts to its left, and of the devices to its right."""
TICKS = 6
"""Amounts on the axis of the chart, about."""
COLOURS = {
    "weights": "#0072b2",
    "gradients": "#56b4e9",
    "optimizer": "#009e73",
    "kept": "#e69f00",
    "loss": "#d55e00",
    "gathered": "#cc79a7",
    "temporaries": "#8a8a8a",
    "cache": "#7b5ea7",
    "adapters": "#f0e442",
    "draft": "#44aa99",
}
"""By part: the colour-blind-safe palette of Okabe and Ito (2008)."""
LABELS = {"optimizer": "optimizer states", "kept": "kept for backward", "gathered": "gathered from others"}


class Plotted(NamedTuple):
    """Placed shapes, and the y below them."""

    shapes: list[str]
    bottom: float


def save_memory(report: Report, curve: BatchCurve, output: Path) -> None:
    """Write the picture of a report as its file's suffix says; ArchError for an unknown one."""
    save_drawing(heading(report), lambda width: memory_svg(report, curve, width), WIDTH, output)


def memory_svg(report: Report, curve: BatchCurve, width: float = WIDTH) -> str:
    """The picture as one SVG file, for light and dark backgrounds."""
    head, y = paragraph(heading(report), LINE - 6, width, "title", 15)
    title, y = paragraph("The highest point of each moment, by what it is made of", y + 6, width, "name")
    moments = _moments(report.totals["moments"], y, width)
    chart = _chart(curve, moments.bottom + 2 * LINE, width)
    return sheet([*head, *title, *moments.shapes, *chart.shapes], width, chart.bottom)


def _moments(moments: Sequence[Mapping[str, Any]], top: float, whole: float) -> Plotted:
    """A stacked bar for each moment, and the legend."""
    most = max(moment["peak_bytes"] for moment in moments)
    room = whole - NAMES - TICK
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
    legend = _legend([name for name in COLOURS if name in used], top + len(moments) * STEP, whole)
    return Plotted([*shapes, *legend.shapes], legend.bottom)


def _segment(name: str, size: int, x: float, y: float, width: float) -> Iterator[str]:
    if not size:
        return
    colour = COLOURS[name]
    shape = element("rect", x=x, y=y, width=width, height=BAR, fill=colour)
    label = short(size, "bytes")
    if text_width(label) + 8 <= width:
        shape += text(x + width / 2, y + 17, label, None, "middle", style=f"fill: {ink_on(colour)}")
    yield titled(shape, f"{name}: {size:,} bytes")


def _legend(names: Sequence[str], y: float, width: float) -> Plotted:
    shapes: list[str] = []
    x = 0.0
    for name in names:
        label = LABELS.get(name, name)
        if x and x + 16 + text_width(label) > width:
            x, y = 0.0, y + LINE
        shapes.append(element("rect", x=x, y=y, width=12, height=12, rx=2, fill=COLOURS[name]))
        shapes.append(text(x + 16, y + 10, label))
        x += 32 + text_width(label)
    return Plotted(shapes, y + LINE)


def _amounts(most: float) -> Iterator[int]:
    """Amounts of an axis from 0 to `most` bytes, steps of 1, 2 or 5 times a power of ten of a binary unit."""
    unit = next(size for size in (2**40, 2**30, 2**20, 1) if most >= size)
    step = next(n for n in (m * 10**e for e in range(4) for m in (1, 2, 5)) if n * unit * TICKS >= most)
    yield from range(0, int(most) + 1, step * unit)


def _chart(curve: BatchCurve, top: float, width: float) -> Plotted:
    """The peak over batch sizes that double, and a line for each device."""
    most = 1.08 * max(size for _, size in (*curve.points, *curve.devices))
    title = "Peak with memory beyond the model, by batch size; dashed: the memory of devices"
    shapes, y = paragraph(title, top, width, "name")
    is_wide = width >= WIDTH
    left, right, bottom = float(TICK), width - (NAME_AND_SIZE if is_wide else NAME), y + CHART
    # a curve may have one point
    step = (right - left) / max(len(curve.points) - 1, 1)

    def up(size: float) -> float:
        return bottom - CHART * size / most

    for size in _amounts(most):
        class_ = "grid" if size else "roof"
        shapes.append(element("line", x1=left, y1=up(size), x2=right, y2=up(size), class_=class_))
        shapes.append(text(left - 6, up(size) + 4, short(size, "bytes") or "0", "soft", "end"))
    below = bottom + 18
    for name, size in sorted(curve.devices, key=lambda device: device[1]):
        below = min(below - 14, up(size) + 4)  # names do not cover each other
        line = element(
            "line", x1=left, y1=up(size), x2=right, y2=up(size), class_="leader", stroke_dasharray="5 4"
        )
        shapes.append(titled(line, f"{name}: {size:,} bytes"))
        is_amount = name[:1].isdigit()  # 80GiB, which is its own name
        label = f"{name}, {short(size, 'bytes')}" if is_wide and not is_amount else name
        shapes.append(text(right + 6, below, label, "soft"))
    points = [(left + i * step, up(size)) for i, (_, size) in enumerate(curve.points)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    shapes.append(element("polyline", points=path, fill="none", stroke=COLOURS["weights"], stroke_width=2))
    for (x, y), (batch, size) in zip(points, curve.points, strict=True):
        mark = element("circle", cx=x, cy=y, r=4, fill=COLOURS["weights"])
        shapes.append(titled(mark, f"batch size {batch:,}: {size:,} bytes"))
        shapes.append(text(x, bottom + 16, f"{batch:,}", "soft", "middle"))
    shapes.append(text((left + right) / 2, bottom + 34, "batch size", "soft", "middle"))
    return Plotted(shapes, bottom + 40)
