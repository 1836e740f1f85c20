"""Wired rows: each says what it reads and caches, and stands for all equal layers."""

from __future__ import annotations

from collections.abc import Iterable

from archcli.arith import Number
from archcli.graph.count_tape import Abstract, CountTape
from archcli.graph.wired_tape import CachingTape, WiredRow, WiredTape, WiredTrace, wired
from archcli.measure.survey.folding import folded
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.forms import formed
from archcli.modules.spec.request import Medium, Request, usual_tokens
from archcli.modules.spec.trace import run_on


def wired_forward(model: Model, batch_size: int = 1, seq_len: int | None = None) -> WiredTrace:
    """A forward, without costs, with what each row reads and what a prefill of it would cache.

    A layer stands once for all of its stack that are like it. `seq_len` left out is that of `usual_tokens`.
    """
    tokens = usual_tokens(model.max_seq_len) if seq_len is None else seq_len
    return folded(caching_forward(model, batch_size, tokens), LayerIndex(model))


def caching_forward(
    model: Model, batch_size: Number, seq_len: Number, media: tuple[Medium, ...] = ()
) -> WiredTrace:
    """The same with a layer for each place of a pattern; its sizes may be symbols."""
    trace = wired_trace(model, model.fitted(Request("forward", batch_size, seq_len, media=media)))
    _note_cached(model, Request("prefill", batch_size, seq_len), trace.rows)
    return trace


def wired_trace(model: Model, request: Request) -> WiredTrace:
    """Trace a pass from an empty cache, without costs. A layer stands for those of its place in a pattern."""
    tape = WiredTape([])
    _run(tape, model, request)
    return wired(tape.rows, tape.wiring)


def _run(tape: CountTape, model: Model, request: Request) -> None:
    """Run the pass of a request, from an empty cache, on a tape."""
    request = request.resolved()
    model, _ = formed(model, request)
    inputs = {name: Abstract(spec.shape, grad=False) for name, spec in model.inputs(request).items()}
    run_on(tape, model.adapted, request, inputs, () if request.caches else None)


def _note_cached(model: Model, request: Request, rows: Iterable[WiredRow]) -> None:
    """Give each row of a forward what the prefill of a request caches of it.

    A forward appends nothing to a cache: what a prefill would append is noted at the row that made it.
    """
    tape = CachingTape([])
    _run(tape, model, request)
    by_id = {row.id: row for row in rows}
    for row in by_id.values():
        row.states = ()
    for row_id, states in tape.cached:
        keeper, outputs = tape.keeper(row_id, by_id)
        if keeper in by_id:
            row = by_id[keeper]
            row.states, row.kept = (*row.states, *states), (*row.kept, *outputs)
