"""Folding: the first of the equal layers of a stack stands for all of them.

Counting traces each place of a pattern once: delta, delta, delta, attention are four layers of rows, of which
three are equal. Alike are layers of equal operations, shapes and weights that are wired alike: what is read
from within the layer, the stream, and what comes from another layer or from outside.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from archcli.errors import ArchError
from archcli.graph.count_tape import settings_of
from archcli.graph.op import PLAIN
from archcli.graph.wired_tape import INPUT, WiredRow, WiredTrace, source_row
from archcli.modules.models.layers import LayerIndex

MADE = "made"
"""A source outside of all layers, without weights: two that compute the same are one."""
NUMBER, NO_NUMBER = "number", -1
"""What stands for a setting that is the number of its layer; the number outside of layers."""


MOST_LAYERS = 30_000
"""Layers whose numbers are listed."""


def folded(trace: WiredTrace, index: LayerIndex) -> WiredTrace:
    """A trace with each layer once for all like it, and with the numbers of these layers.

    Raises ArchError for more layers than can be listed.
    """
    folding = Folding(trace, index)
    entered, left = (
        {path: folding.read(value) for path, value in values.items()}
        for values in (trace.entered, trace.left)
    )
    return trace._replace(rows=tuple(folding.rows()), entered=entered, left=left)


class Folding:
    """Which rows of a trace stand for which others.

    `firsts`: the first layer like each layer, by path. `tables`: of equal rows outside of layers that
    only such layers read, the first by id; a pattern has a rotary table for each of its places.
    `computed`: what rows without weights compute, outside of layers.
    """

    def __init__(self, trace: WiredTrace, index: LayerIndex) -> None:
        self.trace, self.index = trace, index
        self.layers = index.by_layer(trace.rows)
        spans = [index.span(rows[0].path) for path, rows in self.layers.items() if path]
        if sum((span.stop - span.start) // span.step for span in spans) > MOST_LAYERS:
            what = f"it has more than {MOST_LAYERS:,} layers, whose numbers are not listed"
            raise ArchError(what, "params, flops and kvcache count any number of layers")
        self.layer_of = {row.id: path for path, rows in self.layers.items() for row in rows}
        self.computed = {row.id: _computed_by(row) for row in self.layers.get("", ()) if not row.weights}
        self.firsts: dict[str, str] = {}
        self.tables: dict[str, str] = {}
        self._fold_layers()
        self._fold_tables()

    def rows(self) -> Iterator[WiredRow]:
        """Each row once for all like it: the first, changed to stand for the others."""
        alike: dict[str, list[WiredRow]] = {}
        for row in self.trace.rows:
            alike.setdefault(self.renamed(row.id), []).append(row)
        for rows in alike.values():
            first = rows[0]
            # what it stores stays: of layers that share weights the first has them all
            first.layers = self._numbers(rows)
            first.times = sum(row.times for row in rows)
            first.reads = None if first.reads is None else tuple([self.read(read) for read in first.reads])
            yield first

    def renamed(self, row_id: str) -> str:
        """The id of the row that stands for a row."""
        layer = self.layer_of[row_id]
        if layer in self.firsts:
            return self.firsts[layer] + row_id.removeprefix(layer)
        return self.tables.get(row_id, row_id)

    def read(self, read: str) -> str:
        """Rename an input to the row that stands for its maker."""
        maker = source_row(read)
        return read if maker == INPUT else self.renamed(maker) + read.removeprefix(maker)

    def _numbers(self, rows: Sequence[WiredRow]) -> tuple[int, ...] | None:
        """The layers that rows stand for; None outside of layers."""
        if not self.layer_of[rows[0].id]:
            return None
        return tuple(sorted(number for row in rows for number in self.index.span(row.path)))

    def _fold_layers(self) -> None:
        first_like: dict[Hashable, str] = {}
        shared = self._shared_weights()
        for path, rows in self.layers.items():
            if path:
                stack = path.rpartition(".")[0]
                key = (stack, *shared.get(path, ()), *[self._key(row, path) for row in rows])
                self.firsts[path] = first_like.setdefault(key, path)

    def _fold_tables(self) -> None:
        readers: dict[str, set[str]] = {}
        for row in self.trace.rows:
            for read in row.reads or ():
                readers.setdefault(source_row(read), set()).add(self.renamed(row.id))
        first_like: dict[Hashable, str] = {}
        # without those of weights: two of these are two, however equal
        for row_id, table in self.computed.items():
            by = readers.get(row_id, set())
            if by and all(self.layer_of[reader] for reader in by):
                self.tables[row_id] = first_like.setdefault((frozenset(by), table), row_id)

    def _shared_weights(self) -> dict[str, list[tuple[str, str]]]:
        """By layer, the modules in it that share weights, and with which others."""
        shared: dict[str, list[tuple[str, str]]] = {}
        for path, key in self.trace.shares.items():
            layer = path
            while layer and layer not in self.layers:
                layer = layer.rpartition(".")[0]
            shared.setdefault(layer, []).append((path.removeprefix(layer), key))
        return shared

    def _key(self, row: WiredRow, path: str) -> Hashable:
        """What tells a row of a layer apart from those at its place in other layers."""
        reads = tuple([self._source(read, path) for read in _values_read(row)])
        # the layer's slice of a table for all layers is taken by its number
        by_number = row.op.is_view and reads and all(read[0] == MADE for read in reads)
        # constants of a layer, as decays that go by its number: a layer stands for others' anyway
        by_number = by_number or row.op.is_constant
        number = int(path.rpartition(".")[2]) if by_number else NO_NUMBER
        # a layer that uses weights again stores none of them: `_shared_weights` has which
        return row.id.removeprefix(path), *_settings(row, number), row.stored is None, reads

    def _source(self, read: str, path: str) -> tuple[Hashable, ...]:
        """What is read, as seen from a layer: its stream, its own, another layer's, or from outside."""
        if read == self.trace.entered.get(path):
            return ("stream",)
        maker = source_row(read)
        if maker == INPUT:
            return (INPUT,)
        layer = self.layer_of[maker]
        if layer == path:
            return "own", read.removeprefix(path)
        # a row of another layer, or of weights, is itself alone
        if maker not in self.computed:
            return "row", self.read(read)
        return MADE, self.computed[maker], read.removeprefix(maker)


def _computed_by(row: WiredRow) -> Hashable:
    """What a row outside of layers computes: equal of equal operations on the same."""
    return *_settings(row), tuple(_values_read(row))


def _comparable(value: Any) -> Hashable:
    # by repr: masks and sources of frequencies compare by identity
    return value if type(value) in PLAIN else repr(value)


def _values_read(row: WiredRow) -> list[str]:
    """What a row reads, without inputs that only give it a dtype."""
    return [read for i, read in enumerate(row.reads or ()) if i not in row.op.dtype_inputs]


def _settings(row: WiredRow, number: int = NO_NUMBER) -> tuple[Any, ...]:  # mypy: sizes are unhashable
    """An operation's settings without its inputs; a setting equal to the layer's number is marked so."""
    settings = [
        NUMBER if type(value) is int and value == number else _comparable(value)
        for value in settings_of(row.op)
    ]
    kind = type(row.op), *settings, row.group, row.experts, row.trained, row.states, row.reads is None
    return *kind, row.inputs, row.outputs, tuple(row.weights.items())
