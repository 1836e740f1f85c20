"""Figures: numbers of a drawing, each with its address in the JSON of a command.

An address is a row's id, or a module's path, which stands for the sum over the rows below it, or empty for
the totals; several are joined by +. A key has steps joined by dots; keys joined by * are multiplied, those
joined by + are added up.
"""

from __future__ import annotations

from collections.abc import Iterable

from archcli.arith import Number
from archcli.graph.anatomy import Figure
from archcli.graph.wired_tape import WiredRow
from archcli.measure.survey.show import cached_record, layer_params

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
