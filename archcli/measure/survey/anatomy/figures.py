"""Figures: numbers of a drawing, each with its address in the JSON of a command.

An address is a row's id, or a module's path, which stands for the sum over the rows below it, or empty for
the totals; several are joined by +. A key has steps joined by dots; keys joined by * are multiplied, those
joined by + are added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from archcli.arith import Number
from archcli.graph.anatomy import Figure
from archcli.graph.wired_tape import WiredRow
from archcli.measure.survey.show import cached_record, layer_params

Document = Mapping[str, Any]
LAYER_PARAMS = "layer_params"
"""The key of a row's parameters in one layer."""


def shown(row: WiredRow, key: str, value: Number) -> Figure:
    """A number of a row of `show`."""
    return Figure(value, "show", row.id, key)


HEADED = 4
"""Axes of a tensor that is divided into heads: batch, tokens, heads, width."""


def width_figure(row: WiredRow, output: int = 0) -> Figure:
    """Features of a row's output: of heads the width of all of them."""
    shape = row.outputs[output]
    if len(shape) != HEADED:
        return output_figure(row, -1, output)
    return shown(row, f"outputs.{output}.2*outputs.{output}.3", shape[2] * shape[3])


def output_figure(row: WiredRow, axis: int = -1, output: int = 0) -> Figure:
    """The length of an axis of a row's output, by default the last."""
    shape = row.outputs[output]
    place = axis if axis >= 0 else len(shape) + axis
    return shown(row, f"outputs.{output}.{place}", shape[place])


def cached_figure(row: WiredRow) -> Figure:
    """Bytes that a row leaves in the cache of one layer: for each token, or of a state that does not grow."""
    cached = cached_record(row)
    key = "bytes_per_token" if cached["elements_per_token"] else "layer_bytes"
    return shown(row, f"cached.{key}", cached[key])


def added(first: Figure, second: Figure) -> Figure:
    """Two numbers of the same key as their sum."""
    return Figure(first.value + second.value, first.command, f"{first.path}+{second.path}", first.key)


def below(path: str, rows: Iterable[WiredRow]) -> Figure:
    """Parameters of a module in one layer: the sum over the rows below its path."""
    return Figure(sum(layer_params(row) for row in rows), "show", path, LAYER_PARAMS)


def value_of(figure: Figure, document: Document) -> Any:
    """The number at a figure's address in the JSON of its command."""
    rows = _rows_of(figure, document)
    total: Any = 0
    for key in figure.key.split("+"):
        total += sum(prod(_looked_up(row, factor) for factor in key.split("*")) for row in rows)
    return total


def _rows_of(figure: Figure, document: Document) -> list[Document]:
    """The rows, or the totals, that a figure is looked up in."""
    if not figure.path:
        return [document["totals"]]
    return [row for path in figure.path.split("+") for row in _named(path, document["rows"])]


def _named(path: str, rows: Sequence[Document]) -> list[Document]:
    """The row of an id, or those below the path of a module."""
    named = [row for row in rows if _name(row) == path]
    return named or [row for row in rows if row["path"].startswith(f"{path}.")]


def _name(row: Document) -> Any:
    """What a command calls its rows by: `show` by id, `kvcache` by the first layer, `flops` by component."""
    return next((row[key] for key in ("id", "first", "component", "path") if key in row), None)


def _looked_up(row: Any, key: str) -> Any:
    for step in key.split("."):
        row = row[int(step)] if step.isdecimal() and type(row) is list else row[step]
    return row
