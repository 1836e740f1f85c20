"""Shares as bars: FLOPs, bytes and time, one below the other, so that what is little of one and much of another is seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from archcli.render.picture.elements import colour, element, text, titled

LEFT, WIDTH, HEIGHT, STEP = 90, 840, 34, 48
NAMED_FROM = 44
"""Pixels a segment needs to hold its figure."""
BARS = (("flop_share", "FLOPs"), ("byte_share", "bytes"), ("time_share", "time"))


def bars(by_class: Mapping[str, Mapping[str, Any]], top: float) -> Iterator[str]:
    """The three bars from `top` down, and a legend below them."""
    order = sorted(by_class, key=lambda name: -by_class[name]["time_share"])
    for i, (key, name) in enumerate(BARS):
        y = top + i * STEP
        yield text(LEFT - 12, y + HEIGHT / 2 + 4, name, anchor="end")
        yield from _bar({each: by_class[each][key] for each in order}, y)
    yield from _legend(
        [name for name in order if any(abs(by_class[name][key]) > 0 for key, _ in BARS)],
        top + len(BARS) * STEP + 8,
    )


def height(by_class: Mapping[str, Any]) -> float:
    """Pixels the bars and their legend take."""
    return len(BARS) * STEP + 24 * (1 + len(by_class) // 6) + 16


def _bar(shares: Mapping[str, float], y: float) -> Iterator[str]:
    """One bar. A negative share (time that could not be told) is not drawn; the others then pass 100%, where a line stands."""
    drawn = {name: share for name, share in shares.items() if share > 0}
    unit = WIDTH / max(1.0, sum(drawn.values()))
    x = float(LEFT)
    for name, share in drawn.items():
        width = share * unit
        shape = element("rect", x=x, y=y, width=width, height=HEIGHT, fill=colour(name))
        if width >= NAMED_FROM:
            shape += text(x + width / 2, y + HEIGHT / 2 + 4, f"{share:.1%}", "on", "middle")
        yield titled(shape, f"{said(name)}: {share:.2%}")
        x += width
    if unit < WIDTH * 0.999:
        yield element("line", x1=LEFT + unit, y1=y - 4, x2=LEFT + unit, y2=y + HEIGHT + 4, class_="roof")


def _legend(names: list[str], y: float) -> Iterator[str]:
    x, line = float(LEFT), 0
    for name in names:
        wide = 24 + 7 * len(said(name))
        if x + wide > LEFT + WIDTH:
            x, line = float(LEFT), line + 1
        yield element("rect", x=x, y=y + 24 * line, width=12, height=12, rx=2, fill=colour(name))
        yield text(x + 18, y + 24 * line + 10, said(name))
        x += wide + 8


def said(name: str) -> str:
    """A class in words."""
    return (
        name.replace("_", " ")
        .replace("elementwise", "element-wise")
        .replace("movement", "data movement")
        .replace("random", "random numbers")
    )
