"""A small drawing of an architecture: its layers from left to right, and what a token reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from archcli.wings.drawing.picture.architecture.numbers import concrete, written
from archcli.wings.drawing.picture.architecture.page import foot
from archcli.wings.drawing.picture.architecture.page.printed import cut, number
from archcli.wings.drawing.picture.architecture.page.strip import HATCHED
from archcli.wings.drawing.picture.architecture.shapes import SvgShape, svg_of
from archcli.wings.drawing.picture.architecture.style import FONTS, GROUNDS, HUES, rect, text

if TYPE_CHECKING:
    from archcli.wings.drawing.drawn import Anatomy, Cell, Strip

WIDTH, HEIGHT, INSET = 300.0, 132.0, 12.0
LAYERS, HIGH, BARS = 58.0, 34.0, 108.0
"""Where the strip begins, how high it is, and where the bar of shares begins."""
DARK = "@media (prefers-color-scheme:dark)"
SLIM = 12.0


def thumbnail(anatomy: Anatomy) -> str:
    """The small drawing as an SVG file, for light and dark backgrounds."""
    shapes = [*_drawn(anatomy)]
    hues = {name for shape in shapes for name in str(shape.attributes.get("class_")).split("-")}
    stripe = rect(0, 0, 2, 5, "paper")
    turned = {"width": 5, "height": 5, "patternUnits": "userSpaceOnUse", "patternTransform": "rotate(45)"}
    hatch = SvgShape("defs", {}, (SvgShape("pattern", {"id": "hatch", **turned}, (stripe,)),))
    size = {"viewBox": f"0 0 {WIDTH:.0f} {HEIGHT:.0f}", "width": int(WIDTH), "height": int(HEIGHT)}
    inside = (SvgShape("style", content=_css(hues)), hatch, rect(0, 0, WIDTH, HEIGHT, "paper", 8), *shapes)
    root = SvgShape("svg", {"xmlns": "http://www.w3.org/2000/svg", **size, "role": "img"}, inside)
    return svg_of([root]) + "\n"


def _css(hues: set[str]) -> str:
    """The colours that a thumbnail has: solid ones of its hues, and those of text."""
    used = {name: (hue.solid, hue.dark_solid) for name, hue in HUES.items() if name in hues}
    grounds = {name: GROUNDS[name] for name in ("paper", "ink", "muted")}
    light, dark = (
        "".join(f".solid-{name}{{fill:{shades[i]}}}" for name, shades in used.items())
        + "".join(f".{name}{{fill:{shades[i]}}}" for name, shades in grounds.items())
        for i in (0, 1)
    )
    sizes = ".size-head{font-size:15px;font-weight:600}.size-small{font-size:12.5px}"
    return f"text{{font-family:{FONTS}}}{sizes}.hatched{{fill:url(#hatch)}}{light}{DARK}{{{dark}}}"


def _drawn(anatomy: Anatomy) -> Iterator[SvgShape]:
    wide = WIDTH - 2 * INSET
    yield text(INSET, 24, cut(anatomy.name, wide, "head"), "head")
    layers = " + ".join(written(strip.n_layers.value, "whole") for strip in anatomy.strips)
    (total, _, form), *further = anatomy.headline
    read = [number(figure, form).written for figure, caption, form in further if caption == "active"]
    sizes = [number(total, form).written, *(f"{figure} active" for figure in read)]
    summary = " · ".join([f"{layers} layers", sizes[0] if read else f"{sizes[0]} parameters", *sizes[1:]])
    yield text(INSET, 44, cut(summary, wide), ink="muted")
    strip_width = (wide - 6 * (len(anatomy.strips) - 1)) / max(1, len(anatomy.strips))
    for i, strip in enumerate(anatomy.strips):
        yield from _strip(strip, INSET + i * (strip_width + 6), strip_width)
    for segment in foot.segments(anatomy.shares, INSET, wide, read=True) if anatomy.shares else ():
        wider = concrete(segment.width)
        yield rect(segment.left, BARS, max(wider - 1, 0.3), SLIM, f"solid-{segment.share.hue}")
        if segment.share.hue in HATCHED:
            yield rect(segment.left, BARS + SLIM / 2, max(wider - 1, 0.3), SLIM / 2, "hatched")


def _strip(strip: Strip, x: float, width: float) -> Iterator[SvgShape]:
    """Layers from left to right, a path for each hue; above what is drawn by layer, runs without gaps."""
    layers = sum(cell.count for cell in strip.cells)
    pitch = width / layers
    gap = min(1.0, 0.2 * pitch) if layers == len(strip.cells) else 0.0
    for upper, start, high in ((True, LAYERS, HIGH / 3), (False, LAYERS + HIGH / 3 + 1.5, HIGH * 2 / 3)):
        by_hue: dict[str, list[str]] = {}
        for cells in _merged(strip.cells, upper, single=gap > 0):
            parts = cells[0].mixers if upper else cells[0].networks
            count = sum(cell.count for cell in cells)
            left = x + cells[0].first * pitch
            half = (count * pitch - gap) / max(1, len(parts))
            for j, (hue, _) in enumerate(parts):
                step = f"M{left + j * half:.1f} {start:.1f}h{half:.2f}v{high:.1f}h-{half:.2f}z"
                by_hue.setdefault(hue, []).append(step)
        for name, steps in by_hue.items():
            yield SvgShape("path", {"d": "".join(steps), "class_": f"solid-{name}"})
            if name in HATCHED:
                yield SvgShape("path", {"d": "".join(steps), "class_": "hatched"})


def _merged(cells: Sequence[Cell], upper: bool, *, single: bool) -> Iterator[list[Cell]]:
    """Each cell, or like neighbours together where they have no gap."""
    if single:
        yield from ([cell] for cell in cells)
        return
    for _, alike in groupby(cells, key=lambda cell: cell.mixers if upper else cell.networks):
        yield [*alike]
