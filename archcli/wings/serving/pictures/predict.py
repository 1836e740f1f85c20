"""The picture of `archcli predict`: latency against throughput, and the device's roofline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import fsum, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archcli.modules.models.layers import folded_path
from archcli.render.picture.elements import element, paragraph, sheet, text, titled
from archcli.render.picture.files import save_drawing
from archcli.render.picture.labels import Box, Canvas, text_width
from archcli.render.plain import heading
from archcli.render.values import short
from archcli.wings.serving.pictures.roofline import BELOW, HEIGHT, LogScale, roofline, ticks

if TYPE_CHECKING:
    from archcli.measure.report import Report

WIDTH, LINE, LEFT = 912.0, 20, 84
SIZES = {
    "batch_size": "batch size",
    "seq_len": "tokens of a sequence",
    "devices": "number of devices",
    "rate": "requests/s",
}
"""What a curve goes over, by the key of its points."""
LATENCIES = {"train": "a step", "forward": "the forward pass", "prefill": "the prefill"}
"""What takes the time, by phase; a token where the phase is another."""
KINDS = {"floor": "limit", "expected": "expected"}
LINE_COLOUR, NOT_FITTING = "#0072b2", "#d55e00"
"""Of the colour-blind-safe palette of Okabe and Ito (2008)."""

Record = Mapping[str, Any]


def save_prediction(
    report: Report, points: Sequence[Record], key: str, ceilings: Mapping[str, float], output: Path
) -> None:
    """Write the picture as its file's suffix says; ArchError for an unknown one.

    `points` are those of a curve over `key`, `ceilings` the device's gemm_flops_per_s and dram_bytes_per_s.
    """

    def drawing(width: float) -> str:
        return prediction_svg(report, points, key, ceilings, width)

    save_drawing(heading(report), drawing, WIDTH, output)


def save_load(report: Report, points: Sequence[Record], output: Path) -> None:
    """Write the picture of a load over rates: throughput against the time to a first token."""

    def drawing(width: float) -> str:
        kind = "floor" if points[0]["first_token_s"]["expected"] is None else "expected"
        head, y = paragraph(heading(report), LINE - 6, width, "title", 15)
        what = f"Throughput against time to first token, by requests a second ({KINDS[kind]})"
        title, y = paragraph(what, y + 6, width, "name")
        frame = Box(LEFT, y + LINE, width, y + LINE + HEIGHT)
        marks = [
            {
                **point,
                "rate": float(f"{point['rate']:.3g}"),
                "latency_s": point["first_token_s"],
                "fits": point["met"] is not False,
                "verdict": "",
            }
            for point in points
        ]
        curve = _curve(marks, "rate", kind, frame, "time to first token, in the mean")
        return sheet([*head, *title, *curve], width, frame.bottom + BELOW + LINE)

    save_drawing(heading(report), drawing, WIDTH, output)


def prediction_svg(
    report: Report, points: Sequence[Record], key: str, ceilings: Mapping[str, float], width: float = WIDTH
) -> str:
    """The picture as one SVG file, for light and dark backgrounds."""
    kind = "floor" if report.totals["time_s"]["expected"] is None else "expected"
    head, y = paragraph(heading(report), LINE - 6, width, "title", 15)
    title, y = paragraph(f"Throughput against latency, by {SIZES[key]} ({KINDS[kind]})", y + 6, width, "name")
    frame = Box(LEFT, y + LINE, width, y + LINE + HEIGHT)
    what = f"time of {LATENCIES.get(report.inputs['phase'], 'a token')}"
    named = (
        f"Roofline of one {report.totals['device']['name']} ({KINDS[kind]}); the area of a mark is its share"
    )
    roof, y = paragraph(f"{named} of the time", frame.bottom + BELOW + 2 * LINE, width, "name")
    shapes = [
        *(*head, *title, *roof),
        *_curve(points, key, kind, frame, what),
        *roofline(_marks(report.rows), ceilings, y + LINE, width),
    ]
    return sheet(shapes, width, y + LINE + HEIGHT + BELOW)


def _curve(points: Sequence[Record], key: str, kind: str, frame: Box, what: str) -> Iterator[str]:
    """A mark for each point, from left to right slower and from bottom to top more tokens a second."""
    places = [(point["latency_s"][kind], point["tokens_per_s"][kind]) for point in points]
    seconds, rates = (ticks([place[side] for place in places]) for side in (0, 1))
    across, up = ((log10(side[0]), log10(side[-1])) for side in (seconds, rates))
    scale = LogScale(across, up, frame, 12.0)
    yield from _axes(scale, seconds, rates, what)
    line = " ".join("{:.1f},{:.1f}".format(*scale.at(*place)) for place in places)
    yield element("polyline", points=line, fill="none", stroke=LINE_COLOUR, stroke_width=2)
    canvas = Canvas(Box(0.0, 0.0, frame.right, frame.bottom + BELOW))
    # the last label first: it is to stay, as it may say that the point does not fit
    for point, place in reversed(list(zip(points, places, strict=True))):
        x, y = scale.at(*place)
        fits = point["fits"]
        mark = element("circle", cx=x, cy=y, r=4, fill=LINE_COLOUR if fits else NOT_FITTING)
        missing = {"tight": ", tight", "no": ", does not fit"}.get(point["verdict"], "")
        rate = f"{place[1]:,.0f} tokens/s"
        yield titled(mark, f"{SIZES[key]} {point[key]:,}: {short(place[0], 'seconds')}, {rate}{missing}")
        label = f"{point[key]:,}{'' if fits else ' ✗'}"
        x = min(x + 7, frame.right - text_width(label))
        yield from _label(canvas, x, y + 17, label)  # clear of a rising line


def _label(canvas: Canvas, x: float, y: float, label: str) -> Iterator[str]:
    """A label from a point to the right, where it covers no other."""
    box = canvas.first_free([Box(x, y - LINE / 2, x + text_width(label), y)])
    if box is not None:
        yield text(x, y, label, "soft mark")


def _axes(scale: LogScale, seconds: Sequence[float], rates: Sequence[float], what: str) -> Iterator[str]:
    left, top, right, bottom = scale.frame
    canvas = Canvas(Box(0.0, 0.0, right, bottom + BELOW))
    for value in seconds:
        x, _ = scale.at(value, rates[0])
        yield element("line", x1=x, y1=top, x2=x, y2=bottom, class_="grid")
        label = short(value, "seconds")
        wide = text_width(label)
        yield from _label(canvas, min(x - wide / 2, right - wide), bottom + 16, label)
    for value in rates:
        _, y = scale.at(seconds[0], value)
        yield element("line", x1=left, y1=y, x2=right, y2=y, class_="grid")
        yield text(left - 6, y + 4, f"{value:,.10g}", "soft", "end")
    yield text((left + right) / 2, bottom + 34, what, "soft", "middle")
    yield text(0, top - 8, "tokens/s", "soft")


def _marks(rows: Sequence[Record]) -> list[Record]:
    """The rows, those of all layers together, as the roofline draws them."""
    marks: dict[str, dict[str, Any]] = {}
    total = fsum(row["time_s"] for row in rows)
    for row in sorted(rows, key=lambda row: -row["time_s"]):
        path = folded_path(row["path"])
        first = {"path": path, "class": row["class"], "executed_flops": 0.0, "bytes": 0.0, "seconds": 0.0}
        mark = marks.setdefault(path, first)
        mark["executed_flops"] += row["flops"]
        mark["bytes"] += row["bytes"]
        mark["seconds"] += row["time_s"]
    return [{**mark, "time_share": mark["seconds"] / total} for mark in marks.values()]
