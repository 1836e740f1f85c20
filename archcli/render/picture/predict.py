"""The picture of `archcli predict`: latency against throughput, and the device's roofline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archcli.modules.layers import folded_path
from archcli.render.picture.elements import element, sheet, text, titled
from archcli.render.picture.files import save_drawing
from archcli.render.picture.labels import Box
from archcli.render.picture.roofline import BELOW, HEIGHT, roofline
from archcli.render.picture.scale import LogScale
from archcli.render.plain import heading
from archcli.render.values import short

if TYPE_CHECKING:
    from archcli.measure.report import Report

WIDTH, LINE, LEFT = 912, 20, 64
LINE_COLOUR, NOT_FITTING = "#0072b2", "#d55e00"
"""Of the colour-blind-safe palette of Okabe and Ito (2008)."""

Record = Mapping[str, Any]


def save_prediction(
    report: Report, points: Sequence[Record], key: str, ceilings: Mapping[str, float], output: Path
) -> None:
    """Write the picture as its file's suffix says; ArchError for an unknown one.

    `points` are those of a curve over `key`, `ceilings` the device's gemm_flops_per_s and dram_bytes_per_s.
    """
    save_drawing(heading(report), lambda: prediction_svg(report, points, key, ceilings), output)


def prediction_svg(report: Report, points: Sequence[Record], key: str, ceilings: Mapping[str, float]) -> str:
    """The picture as one SVG file, for light and dark backgrounds."""
    kind = "floor" if report.totals["time_s"]["expected"] is None else "expected"
    top = 3.5 * LINE
    below = top + HEIGHT + BELOW + 3 * LINE
    title = f"Latency against throughput, by {key.replace('_', ' ')}, {kind}"
    roof = f"Roofline of one {report.totals['device']['name']}: peaks on paper, kernels as {kind}"
    shapes = [
        text(0, LINE - 6, heading(report), "title", style="font-size: 15px"),
        text(0, 2.5 * LINE, title, "name"),
        *_curve(points, key, kind, top),
        text(0, below - LINE, roof, "name"),
        *roofline(_marks(report.rows), ceilings, below, WIDTH),
    ]
    return sheet(shapes, WIDTH, below + HEIGHT + BELOW)


def _curve(points: Sequence[Record], key: str, kind: str, top: float) -> Iterator[str]:
    """A mark for each point, from left to right slower and from bottom to top more tokens a second."""
    places = [(point["latency_s"][kind], point["tokens_per_s"][kind]) for point in points]
    frame = Box(LEFT, top, WIDTH, top + HEIGHT)
    seconds, rates = ([place[side] for place in places] for side in (0, 1))
    scale = LogScale(_decades(seconds), _decades(rates), frame, 12.0)
    yield from _axes(scale)
    line = " ".join("{:.1f},{:.1f}".format(*scale.at(*place)) for place in places)
    yield element("polyline", points=line, fill="none", stroke=LINE_COLOUR, stroke_width=2)
    for point, place in zip(points, places, strict=True):
        x, y = scale.at(*place)
        fits = point["fits"]
        mark = element("circle", cx=x, cy=y, r=4, fill=LINE_COLOUR if fits else NOT_FITTING)
        missing = "" if fits else ", does not fit"
        rate = f"{place[1]:,.4g} tokens a second"
        yield titled(mark, f"{key} {point[key]:,}: {short(place[0], 'seconds')}, {rate}{missing}")
        yield text(x + 7, y + 13, f"{point[key]:,}{'' if fits else ' ✗'}", "soft")  # clear of a rising line


def _decades(values: Sequence[float]) -> tuple[int, int]:
    least, most = floor(log10(min(values))), ceil(log10(max(values)))
    return least, max(most, least + 1)


def _axes(scale: LogScale) -> Iterator[str]:
    left, top, right, bottom = scale.frame
    for decade in range(scale.x[0], scale.x[1] + 1):
        x, _ = scale.at(10.0**decade, 10.0 ** scale.y[0])
        yield element("line", x1=x, y1=top, x2=x, y2=bottom, class_="grid")
        yield text(x, bottom + 16, short(10.0**decade, "seconds"), "soft", "middle")
    for decade in range(scale.y[0], scale.y[1] + 1):
        _, y = scale.at(10.0 ** scale.x[0], 10.0**decade)
        yield element("line", x1=left, y1=y, x2=right, y2=y, class_="grid")
        yield text(left - 6, y + 4, f"{10.0**decade:,g}", "soft", "end")
    yield text((left + right) / 2, bottom + 34, "seconds of a token, a prefill or a step", "soft", "middle")
    yield text(left, top - 6, "tokens a second", "soft")


def _marks(rows: Sequence[Record]) -> list[Record]:
    """The rows, those of all layers together, as the roofline draws them."""
    marks: dict[str, dict[str, Any]] = {}
    total = sum(row["time_s"] for row in rows)
    for row in sorted(rows, key=lambda row: -row["time_s"]):
        path = folded_path(row["path"])
        first = {"path": path, "class": row["class"], "executed_flops": 0.0, "bytes": 0.0, "seconds": 0.0}
        mark = marks.setdefault(path, first)
        mark["executed_flops"] += row["flops"]
        mark["bytes"] += row["bytes"]
        mark["seconds"] += row["time_s"]
    return [{**mark, "time_share": mark["seconds"] / total} for mark in marks.values()]
