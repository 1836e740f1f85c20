"""Stacked bars of the shares of FLOPs, bytes and time by class of operation, one below the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import fsum
from typing import Any

from archcli.render.picture.elements import colour, element, ink_on, text, titled
from archcli.render.picture.labels import text_width
from archcli.wings.serving.recorded.classes import FRAMEWORK, UNATTRIBUTED, label_of

NAME, HEIGHT, STEP = 18, 34, 64
"""Pixels from the top of a bar's name to its bar, of the bar, and to the next name."""
LEGEND_STEP, SWATCH = 22, 12
ROOM = 10
"""Pixels between a segment's edges and its text."""
BARS = (("flop_share", "FLOPs"), ("byte_share", "bytes"), ("time_share", "time"))
Classes = Mapping[str, Mapping[str, Any]]


def bars(by_class: Classes, top: float, width: float) -> Iterator[str]:
    """The three bars from `top` down, and their legend. `by_class` is `totals.by_class` of the document."""
    order = by_time(by_class)
    for i, (key, name) in enumerate(BARS):
        y = top + i * STEP
        yield text(0, y + 12, name, "name")
        yield from bar({op_class: by_class[op_class][key] for op_class in order}, y + NAME, width)
    yield from legend(_shown(by_class), top + len(BARS) * STEP, width)


def legend(classes: Sequence[str], top: float, width: float) -> Iterator[str]:
    """The colours of classes from `top` down."""
    for name, x, y in _places(classes, width):
        yield element("rect", x=x, y=top + y, width=SWATCH, height=SWATCH, rx=2, fill=colour(name))
        yield text(x + 18, top + y + 10, label_of(name))


def legend_height(classes: Sequence[str], width: float) -> float:
    """Pixels that the legend takes."""
    return max((y for _, _, y in _places(classes, width)), default=0.0) + LEGEND_STEP


def by_time(by_class: Classes) -> list[str]:
    """The classes, the slowest first, framework and the unattributed rest last."""
    return sorted(
        by_class, key=lambda name: (name in {FRAMEWORK, UNATTRIBUTED}, -by_class[name]["time_share"])
    )


def height(by_class: Classes, width: float) -> float:
    """Pixels that the bars and their legend take."""
    return len(BARS) * STEP + legend_height(_shown(by_class), width)


def bar(shares: Mapping[str, float], y: float, whole: float) -> Iterator[str]:
    """One bar of shares by class. A negative share, of unattributed time, is left out; a line marks 100%."""
    drawn = {name: share for name, share in shares.items() if share > 0}
    # beyond 1 where a traced pass took longer than the plain one that shares are of
    unit = whole / max(1.0, fsum(drawn.values()))
    x = 0.0
    for name, share in drawn.items():
        width = share * unit
        shape = element("rect", x=x, y=y, width=width, height=HEIGHT, fill=colour(name))
        parts = (x, min(x + width, unit)), (max(x, unit), x + width)
        left, right = max(parts, key=lambda ends: ends[1] - ends[0])  # beside the line that marks 100%
        shape += _segment_text(name, share, (left + right) / 2, y + HEIGHT / 2 + 4, right - left)
        yield titled(shape, f"{label_of(name)}: {share:.2%}")
        x += width
    if unit < whole * 0.999:
        line = element("line", x1=unit, y1=y - 4, x2=unit, y2=y + HEIGHT + 4, class_="roof")
        yield titled(line, "100% of the plain wall time")


def _segment_text(name: str, share: float, x: float, y: float, width: float) -> str:
    """The class and its share, or the share alone, or nothing, as there is room."""
    for content in (f"{label_of(name)} {share:.1%}", f"{share:.1%}"):
        if text_width(content) + ROOM <= width:
            return text(x, y, content, None, "middle", style=f"fill: {ink_on(colour(name))}")
    return ""


def _shown(by_class: Classes) -> list[str]:
    """The classes that have a share, the slowest first."""
    return [name for name in by_time(by_class) if any(by_class[name][key] > 0 for key, _ in BARS)]


def _places(classes: Sequence[str], width: float) -> Iterator[tuple[str, float, float]]:
    """(class, x, y) in the legend."""
    x, y = 0.0, 0.0
    for name in classes:
        wide = 18 + text_width(label_of(name))
        if x and x + wide > width:
            x, y = 0.0, y + LEGEND_STEP
        yield name, x, y
        x += wide + 16
