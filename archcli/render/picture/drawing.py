"""The SVG of a profile: a heading, bars of the shares by class, and a roofline of the operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archcli.recording.classes import label_of
from archcli.render.picture import bars, roofline
from archcli.render.picture.elements import LINE, drawing, sheet, text
from archcli.render.picture.labels import wrapped

WIDTH, GAP = 912, 28
TITLE = "Roofline: how fast each operator computes; the area of a mark is its share of the time"
Document = Mapping[str, Any]


def svg(document: Document) -> str:
    """The picture as one SVG file, for light and dark backgrounds."""
    heading, top = _heading(document)
    inside, height = _figure(document, top + GAP - LINE, WIDTH)
    return sheet([*heading, *inside], WIDTH, height) + "\n"


def figure(document: Document, width: float) -> str:
    """Bars and roofline alone, for a page that has the heading and `elements.STYLE`."""
    inside, height = _figure(document, 0.0, width)
    return drawing(inside, 0, width, height)


def headline(document: Document) -> str:
    """The model's name, and whether its times are extrapolated."""
    suffix = ", extrapolated" if document["totals"].get("extrapolated") else ""
    return f"{document['model']['name']}: where the time goes{suffix}"


def lead(document: Document) -> str:
    """The shares of the class that has most FLOPs, in a sentence; empty where nothing computes."""
    by_class = document["totals"]["by_class"]
    name = max(by_class, key=lambda name: by_class[name]["flop_share"])
    flops, moved, time = (by_class[name][f"{kind}_share"] for kind in ("flop", "byte", "time"))
    label = label_of(name)
    shares = f"{flops:.1%} of the FLOPs, {moved:.1%} of the bytes, {time:.1%} of the time"
    return f"{label[:1].upper()}{label[1:]}: {shares}." if flops else ""


def settings(document: Document) -> str:
    """How and on what the model was run, and how long a pass took."""
    inputs, totals = document["inputs"], document["totals"]
    details = [
        f"{key.replace('_', ' ')} {inputs[key]}"
        for key in ("phase", "batch_size", "seq_len", "past", "dtype")
        if inputs.get(key)
    ]
    machine = totals.get("machine", {})
    details.append(str(machine.get("CPU" if inputs["device"] == "cpu" else "processor", inputs["device"])))
    return f"{', '.join(details)}; {totals['wall_s'] * 1e3:,.1f} ms a pass"


def warnings(document: Document) -> list[str]:
    """The warnings; of a document saved before they were kept apart, those notes that begin as one."""
    totals = document["totals"]
    if totals.get("reliable", True):
        return list(totals.get("warnings", ()))
    early = [note for note in document["notes"] if "NOT RELIABLE" in note]
    return list(totals.get("warnings", early)) or ["NOT RELIABLE, see the notes."]


def _heading(document: Document) -> tuple[list[str], float]:
    """The lines above the figure, and the y of its top."""
    lines, y = list[str](), 0.0
    unreliable = [] if document["totals"].get("reliable", True) else warnings(document)
    paragraphs = [(headline(document), "title", 18), (lead(document), "lead", 14)]
    paragraphs += [(warning, "warning", 12) for warning in unreliable]
    paragraphs.append((settings(document), "soft", 12))
    for content, class_, size in paragraphs:
        for line in wrapped(content, WIDTH, size, bold=class_ != "soft") if content else ():
            y += LINE * max(1.0, size / 13)
            lines.append(text(0, y - 4, line, class_))
    return lines, y + LINE


def _figure(document: Document, top: float, width: float) -> tuple[list[str], float]:
    """Bars and roofline from `top` down, and the y of their end."""
    totals = document["totals"]
    shapes = list(bars.bars(totals["by_class"], top, width))
    y = top + bars.height(totals["by_class"], width) + GAP
    for line in wrapped(TITLE, width, bold=True):
        shapes.append(text(0, y, line, "name"))
        y += LINE
    shapes += roofline.roofline(document["rows"], totals.get("ceilings"), y + LINE, width)
    return shapes, y + LINE + roofline.HEIGHT + roofline.BELOW
