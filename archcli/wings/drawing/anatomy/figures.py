"""Numbers of a drawing, each with its place in the JSON of a command.

A place is a path and a key: `layers.0.attention.q_proj` and `outputs.0.2` are entry 2 of its first output's
shape. A path is a row's id, a module's path for the sum of the rows below it, or empty for the totals.
Paths joined by + are added up, and so are keys; keys joined by * are multiplied.
"""

from __future__ import annotations

from collections.abc import Iterable

from archcli.arith import Number
from archcli.graph.wired_tape import WiredRow
from archcli.measure.survey.show import cached_record, layer_params
from archcli.wings.drawing.drawn import Figure

LAYER_PARAMS = "layer_params"
"""The key of a row's parameters in one layer."""


def shown(row: WiredRow, key: str, value: Number) -> Figure:
    """A number with its place in a row of `archcli show`."""
    return Figure(value, "show", row.id, key)


HEADED = 4
"""Axes of a tensor that is divided into heads: batch, tokens, heads, width."""


def width_figure(row: WiredRow, output: int = 0) -> Figure:
    """Features of a row's output; H * d of an output [B, T, H, d]."""
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
    """Bytes that a row caches in one layer: per token, or in total for a state of fixed size."""
    cached = cached_record(row)
    key = "bytes_per_token" if cached["elements_per_token"] else "layer_bytes"
    return shown(row, f"cached.{key}", cached[key])


def added(first: Figure, second: Figure) -> Figure:
    """The sum of two numbers with the same key."""
    return Figure(first.value + second.value, first.command, f"{first.path}+{second.path}", first.key)


def below(path: str, rows: Iterable[WiredRow]) -> Figure:
    """Parameters of a module in one layer, the sum of the rows below its path."""
    return Figure(sum(layer_params(row) for row in rows), "show", path, LAYER_PARAMS)
