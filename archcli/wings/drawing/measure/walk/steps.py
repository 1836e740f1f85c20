"""Steps of a pass: what a layer of each kind reads, computes and caches, from the rows of that pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain, groupby
from typing import NamedTuple

from archcli.arith import Number, Shape, rounded
from archcli.graph import OpClass, Row, State, StateContent, StateKind
from archcli.measure.kvcache.cache_size import CacheDtypes
from archcli.measure.survey.show import CACHE_DTYPE
from archcli.modules.models.layers import LayerIndex
from archcli.wings.drawing.drawn import Anatomy, DrawnPart, Kind

OF_STREAM = 3
"""Axes of the stream: batch, tokens, features."""


class StepAmounts(NamedTuple):
    """Parameters read, FLOPs of matrix products, and bytes of the cache that are written and read."""

    params: Number = 0
    flops: Number = 0
    written: Number = 0
    read: Number = 0

    def plus(self, more: StepAmounts, times: Number = 1) -> StepAmounts:
        """The sum with `times` as many."""
        return StepAmounts(*(a + times * b for a, b in zip(self, more, strict=True)))

    def whole(self) -> StepAmounts:
        """Each as a whole number."""
        return StepAmounts(*map(rounded, self))


class WalkStep(NamedTuple):
    """A step: the operations outside of layers, a layer, or a part of a layer.

    kind: the path of the drawn layer; of what runs `before` or `after` a stack that of its first layer.
    end: `before` or `after`; empty within the layers.
    letter: of the part; empty for a whole layer.
    times: layers that it stands for.
    entered, left: shapes of what it reads and gives.
    amounts: of one layer.
    experts: (chosen, all) of a mixture.
    """

    title: str
    kind: str
    end: str
    letter: str
    times: int
    entered: Shape
    left: Shape
    amounts: StepAmounts
    experts: tuple[Number, Number] | None = None


def amounts_of(rows: Iterable[Row], phase: str, layers: int = 1, source: Iterable[Row] = ()) -> StepAmounts:
    """The amounts of rows, in one of the layers that each of them stands for.

    source: rows of an earlier pass whose keys and values of a source these rows read.
    """
    total = StepAmounts()
    for row in rows:
        of_products = (of for _, _, of in row.pieces(phase) if of.op_class is OpClass.CONTRACTION)
        flops = sum((of.flops for of in of_products), 0)
        params = row.unit_params * (row.experts.top_k if row.experts else 1)
        written = _bytes((state, _added(state)) for state in row.states)
        read = _bytes((state, state.elements) for state in row.states if phase == "decode")
        total = total.plus(StepAmounts(params, flops, written, read), Fraction(row.times) / layers)
    kept = [(row, state) for row in source for state in row.states if state.kind is StateKind.SOURCE]
    of_source = sum((Fraction(row.times) / layers * _bytes([(it, it.elements)]) for row, it in kept), 0)
    return total.plus(StepAmounts(read=of_source))


def _added(state: State) -> Number:
    """Elements that a pass over one token writes: an entry, or all of a state that does not grow."""
    return state.elements if state.tokens is None or state.kind is StateKind.SOURCE else state.per_token()


def _bytes(elements: Iterable[tuple[State, Number]]) -> Number:
    contents = Counter[StateContent]()
    for state, number in elements:
        contents[state.holds] += number
    return CacheDtypes(CACHE_DTYPE).bytes_of(contents)


class LayerSteps:
    """The steps of a stack of layers in the rows of a pass.

    rows: in their order. source: see `amounts_of`.
    """

    def __init__(
        self,
        anatomy: Anatomy,
        index: LayerIndex,
        rows: Sequence[Row],
        phase: str,
        source: Sequence[Row] = (),
    ) -> None:
        self.anatomy, self.index, self.phase = anatomy, index, phase
        self.parts = {part.letter: part for part in anatomy.parts}
        self.rows, self.source = index.by_layer(rows), index.by_layer(source)
        self.outside = self.rows.pop("", [])
        self.places = {id(row): place for place, row in enumerate(rows)}

    def steps(self) -> Iterator[WalkStep]:
        """What runs before the layers, a layer of each kind with its parts, and what runs after them."""
        kinds = [kind for kind in self.anatomy.kinds if kind.path in self.rows]
        stacks = [[*of_stack] for _, of_stack in groupby(kinds, lambda kind: _stack(kind.path))]
        if not stacks:
            return
        # a source has the keys and values of a second stack besides, and nothing else of it
        stack, *further = stacks
        first = self.places[id(self.rows[stack[0].path][0])]
        before = [row for row in self.outside if self.places[id(row)] < first]
        after = [row for row in self.outside if self.places[id(row)] > first]
        of_stack = [step for kind in stack for step in self._of_kind(kind)]
        if before:
            yield self._at_end("before", stack[0], before, before[0].inputs[0], of_stack[0].entered)
        yield from of_stack
        if after and after[-1].outputs:
            yield self._at_end("after", stack[-1], after, of_stack[-1].left, after[-1].outputs[0])
        for kind in chain.from_iterable(further):
            yield from self._of_kind(kind)

    def _at_end(self, end: str, kind: Kind, rows: Sequence[Row], entered: Shape, left: Shape) -> WalkStep:
        strip = next(it for it in self.anatomy.strips if any(cell.kind == kind.path for cell in it.cells))
        names = ", ".join(map(str, strip.before if end == "before" else strip.after)) or f"{end} the layers"
        title, amounts = names[:1].upper() + names[1:], amounts_of(rows, self.phase).whole()
        return WalkStep(title, strip.cells[0].kind, end, "", 1, entered, left, amounts)

    def total(self) -> StepAmounts:
        """The amounts of all rows; of weights that several layers share once."""
        kinds = {path: len(self.index.span(rows[0].path)) for path, rows in self.rows.items()}
        every = [(self.outside, 1, ""), *((self.rows[path], n, path) for path, n in kinds.items())]
        total = StepAmounts()
        for rows, layers, path in every:
            total = total.plus(amounts_of(rows, self.phase, layers, self.source.get(path, ())), layers)
        params = sum(row.active_params for rows, _, _ in every for row in rows)
        return total._replace(params=params).whole()

    def _of_kind(self, kind: Kind) -> Iterator[WalkStep]:
        """A layer of a kind, then its parts in the order in which they run."""
        alike = [path for path in self.rows if _stack(path) == _stack(kind.path)]
        spans = [self.index.span(path) for path in alike]
        times = sum(len(span) for span in spans if span.start in kind.layers)
        rows, source = self.rows[kind.path], self.source.get(kind.path, [])
        layers = len(self.index.span(rows[0].path))
        whole = amounts_of(rows, self.phase, layers, source).whole()
        yield WalkStep(str(kind.title), kind.path, "", "", times, *_ends(rows), whole)
        for node in kind.nodes:
            inside, kept = _below(node.id, rows), _below(node.id, source)
            if node.letter and inside:
                part = self.parts[node.letter]
                amounts = amounts_of(inside, self.phase, layers, kept).whole()
                ends = _ends(inside)
                yield WalkStep(part.title, kind.path, "", part.letter, times, *ends, amounts, _experts(part))


def _stack(path: str) -> str:
    """The stack of a layer: decoder.layers of decoder.layers.3."""
    return path.rpartition(".")[0]


def _below(path: str, rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.path.startswith(f"{path}.")]


def _ends(rows: Sequence[Row]) -> tuple[Shape, Shape]:
    """The shapes of what the first row reads and the last one gives."""
    # a rotary table that is made first reads positions alone
    read = [row.inputs[0] for row in rows if row.inputs]
    entered = next((shape for shape in read if len(shape) >= OF_STREAM), ())
    return entered, rows[-1].outputs[0]


def _experts(part: DrawnPart) -> tuple[Number, Number] | None:
    """(chosen, all) experts of a part; None of a part without a choice."""
    choices = (node.choice for node in part.nodes if node.choice is not None)
    return next(((choice.chosen.value, choice.count.value) for choice in choices), None)
