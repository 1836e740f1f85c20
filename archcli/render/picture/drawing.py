"""The SVG of a profile: a heading, bars of the shares by class, and a roofline of the operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from archcli.render.picture import bars, roofline
from archcli.render.picture.elements import STYLE, element, text

WIDTH, TOP, BELOW = 960, 84, 56
Document = Mapping[str, Any]


def svg(document: Document) -> str:
    """The picture as one SVG file, for light and dark backgrounds."""
    totals = document["totals"]
    second = TOP + bars.height(totals["by_class"]) + 40
    height = second + roofline.HEIGHT + BELOW
    inside = [
        element("style", STYLE),
        element("rect", class_="paper", width="100%", height="100%"),
        *_heading(document),
        *bars.bars(totals["by_class"], TOP),
        text(bars.LEFT, second - 28, "Roofline; the area of a mark is its share of the time", "title"),
        *roofline.roofline(document["rows"], totals.get("ceilings"), second),
    ]
    size = f"0 0 {WIDTH} {height:.0f}"
    body = "\n".join(inside)
    return (
        element(
            "svg",
            f"\n{body}\n",
            xmlns="http://www.w3.org/2000/svg",
            viewBox=size,
            width=WIDTH,
            height=height,
            role="img",
        )
        + "\n"
    )


def headline(document: Document) -> str:
    """The model's name, and whether its times are extrapolated."""
    suffix = ", extrapolated" if document["totals"].get("extrapolated") else ""
    return f"{document['model']['name']}: where the time goes{suffix}"


def _heading(document: Document) -> Iterator[str]:
    inputs, totals = document["inputs"], document["totals"]
    settings = [
        f"{key.replace('_', ' ')} {inputs[key]}"
        for key in ("phase", "batch_size", "seq_len", "past", "dtype")
        if inputs.get(key)
    ]
    machine = totals.get("machine", {})
    settings.append(str(machine.get("CPU" if inputs["device"] == "cpu" else "processor", inputs["device"])))
    yield text(24, 30, headline(document), "title")
    reliable = "" if totals.get("reliable", True) else "   NOT RELIABLE, see the notes"
    yield text(24, 52, f"{', '.join(settings)}; {totals['wall_s'] * 1e3:,.1f} ms a pass{reliable}", "soft")
