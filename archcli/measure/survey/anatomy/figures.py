"""Figures: numbers of a drawing, each with its address in the JSON of a command, and how one is looked up.

An address is a row's id, or a module's path, which stands for the sum over the rows below it, or empty for
the totals. A key has steps joined by dots; keys joined by + are added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from archcli.arith import Number
from archcli.graph.wired_tape import WiredRow
from archcli.measure.survey.anatomy.records import Figure

Document = Mapping[str, Any]
LAYER_PARAMS = "layer_params"
"""The key of a row's parameters in one layer."""


def shown(row: WiredRow, key: str, value: Number) -> Figure:
    """A number of a row of `show`."""
    return Figure(value, "show", row.id, key)


def output_figure(row: WiredRow, axis: int = -1, output: int = 0) -> Figure:
    """The length of an axis of a row's output, by default the last."""
    shape = row.outputs[output]
    place = axis if axis >= 0 else len(shape) + axis
    return shown(row, f"outputs.{output}.{place}", shape[place])


def layer_params(row: WiredRow) -> Number:
    """Parameters of a row in one layer, those of all its experts included."""
    return row.unit_params * (row.experts.n_experts if row.experts else 1)


def below(path: str, rows: Iterable[WiredRow]) -> Figure:
    """Parameters of a module in one layer: the sum over the rows below its path."""
    return Figure(sum(layer_params(row) for row in rows), "show", path, LAYER_PARAMS)


def value_of(figure: Figure, document: Document) -> Any:
    """The number at a figure's address in the JSON of its command."""
    rows = _rows_of(figure, document)
    total: Any = 0
    for key in figure.key.split("+"):
        for row in rows:
            total += _looked_up(row, key)
    return total


def _rows_of(figure: Figure, document: Document) -> list[Document]:
    """The rows, or the totals, that a figure is looked up in."""
    if not figure.path:
        return [document["totals"]]
    rows = document["rows"]
    named = [row for row in rows if figure.path in (row.get("id"), row.get("path"), row.get("first"))]
    return named[:1] or [row for row in rows if row["path"].startswith(f"{figure.path}.")]


def _looked_up(row: Any, key: str) -> Any:
    for step in key.split("."):
        row = row[int(step)] if step.isdecimal() and type(row) is list else row[step]
    return row
