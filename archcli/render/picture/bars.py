"""Stacked bars of the shares of FLOPs, bytes and time by class of operation, one below the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from archcli.recording.classes import label_of
from archcli.render.picture.elements import colour, element, text, titled

LEFT, WIDTH, HEIGHT, STEP = 90, 840, 34, 48
LEAST_LABELLED = 44
"""Pixels; a narrower segment has no room for its percentage."""
BARS = (("flop_share", "FLOPs"), ("byte_share", "bytes"), ("time_share", "time"))


def bars(by_class: Mapping[str, Mapping[str, Any]], top: float) -> Iterator[str]:
    """The three bars from `top` down, and their legend. `by_class` is `totals.by_class` of the document."""
    order = sorted(by_class, key=lambda name: -by_class[name]["time_share"])
    for i, (key, name) in enumerate(BARS):
        y = top + i * STEP
        yield text(LEFT - 12, y + HEIGHT / 2 + 4, name, anchor="end")
        yield from _bar({op_class: by_class[op_class][key] for op_class in order}, y)
    present = [op_class for op_class in order if any(by_class[op_class][key] for key, _ in BARS)]
    yield from _legend(present, top + len(BARS) * STEP + 8)


def height(by_class: Mapping[str, Any]) -> float:
    """Pixels that the bars and their legend take."""
    return len(BARS) * STEP + 24 * (1 + len(by_class) // 6) + 16


def _bar(shares: Mapping[str, float], y: float) -> Iterator[str]:
    """One bar of shares by class. A negative share, of unattributed time, is left out; a line marks 100%."""
    drawn = {name: share for name, share in shares.items() if share > 0}
    unit = WIDTH / max(1.0, sum(drawn.values()))
    x = float(LEFT)
    for name, share in drawn.items():
        width = share * unit
        shape = element("rect", x=x, y=y, width=width, height=HEIGHT, fill=colour(name))
        if width >= LEAST_LABELLED:
            shape += text(x + width / 2, y + HEIGHT / 2 + 4, f"{share:.1%}", "on", "middle")
        yield titled(shape, f"{label_of(name)}: {share:.2%}")
        x += width
    if unit < WIDTH * 0.999:
        yield element("line", x1=LEFT + unit, y1=y - 4, x2=LEFT + unit, y2=y + HEIGHT + 4, class_="roof")


def _legend(names: list[str], y: float) -> Iterator[str]:
    x, line = float(LEFT), 0
    for name in names:
        wide = 24 + 7 * len(label_of(name))
        if x + wide > LEFT + WIDTH:
            x, line = float(LEFT), line + 1
        yield element("rect", x=x, y=y + 24 * line, width=12, height=12, rx=2, fill=colour(name))
        yield text(x + 18, y + 24 * line + 10, label_of(name))
        x += wide + 8
