"""The picture of an architecture's profile: shares by class, and a roofline of the operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from archcli.render.picture.elements import LINE, text
from archcli.render.picture.labels import wrapped
from archcli.wings.running.pictures.profile import bars
from archcli.wings.running.pictures.profile.drawing import GAP, FigureTable, Picture
from archcli.wings.serving.pictures import roofline
from archcli.wings.serving.recorded.classes import label_of
from archcli.wings.serving.recorded.conditions import conditions_of, warnings_of

TITLE = "Roofline: how fast each operator computes; the area of a mark is its share of the time"
HEADS = ("FLOPs", "bytes", "time", "ms")
MOST_OPERATORS = 40
"""Rows of the table by operator, the slowest first."""
Document = Mapping[str, Any]


def picture_of_model(document: Document) -> Picture:
    """What is drawn of the document that `archcli profile MODEL --json` prints."""
    suffix = ", extrapolated" if document["totals"].get("extrapolated") else ""
    return Picture(
        f"{document['model']['name']}: where the time goes{suffix}",
        _lead(document),
        warnings_of(document),
        document["totals"].get("reliable", True),
        conditions_of(document),
        partial(_figure, document),
        _tables(document),
    )


def _lead(document: Document) -> str:
    """The shares of the class that has most FLOPs, in a sentence; empty where nothing computes."""
    by_class = document["totals"]["by_class"]
    name = max(by_class, key=lambda name: by_class[name]["flop_share"])
    flops, moved, time = (by_class[name][f"{kind}_share"] for kind in ("flop", "byte", "time"))
    label = label_of(name)
    shares = f"{flops:.1%} of the FLOPs, {moved:.1%} of the bytes, {time:.1%} of the time"
    return f"{label[:1].upper()}{label[1:]}: {shares}." if flops else ""


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


def _tables(document: Document) -> list[FigureTable]:
    by_class = document["totals"]["by_class"]
    classes = _lines((label_of(name), by_class[name]) for name in bars.by_time(by_class))
    operators = _lines((row["path"], row) for row in document["rows"])
    return [
        FigureTable("By class", "classes", HEADS, classes, len(classes)),
        FigureTable("By operator", "operators", HEADS, operators, MOST_OPERATORS),
    ]


def _lines(entries: Iterable[tuple[str, Mapping[str, Any]]]) -> list[list[str]]:
    return [
        [
            name,
            *(f"{figures[f'{kind}_share']:.2%}" for kind in ("flop", "byte", "time")),
            f"{figures['seconds'] * 1e3:,.3f}",
        ]
        for name, figures in entries
    ]
