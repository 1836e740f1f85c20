"""Wired rows: a forward whose rows say what they read and cache, and stand once for all layers alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from archcli.arith import Number
from archcli.graph import Row, State
from archcli.graph.count_tape import Abstract
from archcli.graph.wired_tape import WiredRow, WiredTape, WiredTrace, wired
from archcli.measure.survey.folding import folded
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.forms import formed
from archcli.modules.spec.request import Request
from archcli.modules.spec.trace import run_on


def wired_rows(model: Model, batch_size: int = 1, seq_len: int = 2048) -> tuple[WiredRow, ...]:
    """The rows of `wired_forward`."""
    return wired_forward(model, batch_size, seq_len).rows


def wired_forward(model: Model, batch_size: int = 1, seq_len: int = 2048) -> WiredTrace:
    """A forward, without costs, with what each row reads and what a prefill of it would cache.

    A layer stands once for all of its stack that are like it.
    """
    return folded(caching_forward(model, batch_size, seq_len), LayerIndex(model))


def caching_forward(model: Model, batch_size: Number, seq_len: Number) -> WiredTrace:
    """The same with a layer for each place of a pattern; its sizes may be symbols."""
    trace = wired_trace(model, Request("forward", batch_size, seq_len))
    prefill = wired_trace(model, Request("prefill", batch_size, seq_len, logits="all"))
    return trace._replace(rows=tuple(_caching(trace, prefill)))


def wired_trace(model: Model, request: Request) -> WiredTrace:
    """Trace a pass from an empty cache, without costs. A layer stands for those of its place in a pattern."""
    request = request.resolved()
    model, _ = formed(model, request)
    rows: list[Row] = []
    tape = WiredTape(rows)
    inputs = {name: Abstract(spec.shape, grad=False) for name, spec in model.inputs(request).items()}
    run_on(tape, model.adapted, request, inputs, () if request.caches else None)
    return wired(rows, tape.wiring)


class Kept(NamedTuple):
    """What a row leaves in the cache, and which of its outputs are kept as they are."""

    states: tuple[State, ...] = ()
    outputs: tuple[int, ...] = ()


NOTHING = Kept()


def _caching(trace: WiredTrace, prefill: WiredTrace) -> list[WiredRow]:
    """The rows of a forward with what they cache in a prefill."""
    kept = _kept({row.id for row in trace.rows}, prefill)
    of_rows = [kept.get(row.id, NOTHING) for row in trace.rows]
    pairs = zip(trace.rows, of_rows, strict=True)
    return [replace(row, states=of_row.states, kept=of_row.outputs) for row, of_row in pairs]


def _kept(ids: set[str], prefill: WiredTrace) -> dict[str, Kept]:
    """What a prefill caches, by the rows of the forward; what it appends to the cache by who made it."""
    made = {row.id: row for row in prefill.rows}
    kept: dict[str, Kept] = {}
    for row in prefill.rows:
        for state in row.states:
            maker, outputs = _maker(row, ids, made)
            before = kept.get(maker, NOTHING)
            kept[maker] = Kept((*before.states, state), (*before.outputs, *outputs))
    return kept


def _maker(row: WiredRow, ids: set[str], made: Mapping[str, WiredRow]) -> tuple[str, tuple[int, ...]]:
    """The row of the forward that made what a row caches, and the output that it is, if it is one."""
    output: tuple[int, ...] = ()
    while row.id not in ids and row.reads:
        maker, _, which = row.reads[0].partition(":")
        output = (int(which or 0),)
        row = made[maker]
    return row.id, output
