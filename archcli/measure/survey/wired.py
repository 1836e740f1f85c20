"""Wired rows: a forward whose rows say which rows they read, for `show` and for drawings."""

from __future__ import annotations

from typing import NamedTuple

from archcli.graph import Row
from archcli.graph.count_tape import Abstract
from archcli.graph.wired_tape import WiredRow, WiredTape, Wiring, wired
from archcli.modules import Model
from archcli.modules.spec.forms import formed
from archcli.modules.spec.request import Request
from archcli.modules.spec.trace import run_on


class WiredTrace(NamedTuple):
    """The rows of a forward with their ids and what they read, and what the tape has noted besides."""

    rows: tuple[WiredRow, ...]
    wiring: Wiring


def wired_trace(model: Model, batch_size: int = 1, seq_len: int = 2048) -> WiredTrace:
    """Trace a forward, without costs. A layer stands for all like it in its place of a pattern."""
    request = Request("forward", batch_size, seq_len).resolved()
    model, _ = formed(model, request)
    rows: list[Row] = []
    tape = WiredTape(rows)
    inputs = {name: Abstract(spec.shape, grad=False) for name, spec in model.inputs(request).items()}
    run_on(tape, model.adapted, request, inputs, None)
    return WiredTrace(tuple(wired(rows, tape.wiring)), tape.wiring)
