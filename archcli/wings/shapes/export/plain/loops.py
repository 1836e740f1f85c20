"""Loops over pieces of a tensor: the body runs twice, and becomes a function that a loop calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.wings.serving.launches.tensor import ShapeTensor
from archcli.wings.shapes.export.plain.numbers import ATOM, code_of, coded
from archcli.wings.shapes.export.plain.traced import PendingLine, WrittenTensor, arguments, reads

VARIED = tuple(f"\x02{letter}\x03" for letter in "BTSQ")
"""Sizes that a pass decides."""


def varies(size: Any) -> bool:
    """Whether a size is that of a pass, and so the number of pieces along it."""
    return any(token in code_of(size) for token in VARIED)


class Loop(PendingLine):
    """A loop in the code: over which sequences, with what carried from one step to the next.

    items: a sequence and the tensor that stands for its pieces. carried: what a tensor is before the first
    step, and what each step makes of it.
    """

    def __init__(self, scope: Any) -> None:
        super().__init__([])
        self.scope, self.start, self.middle = scope, len(scope.statements), 0
        self.items: list[tuple[WrittenTensor, WrittenTensor]] = []
        self.kept: list[tuple[WrittenTensor, WrittenTensor]] = []
        self.every: list[WrittenTensor] = []
        self.used: list[tuple[WrittenTensor, WrittenTensor]] = []
        self.carried: list[tuple[WrittenTensor, WrittenTensor]] = []

    def close(self) -> None:
        """Make one statement of the two runs of the body."""
        statements = self.scope.statements
        first, second = statements[self.start : self.middle], statements[self.middle :]
        if [_form(s) for s in first] != [_form(s) for s in second]:
            raise NotImplementedError("steps of a loop that differ")
        inside = {id(x) for s in first for x in s.outs}
        pairs = [
            pair for a, b in zip(first, second, strict=True) for pair in zip(a.outs, b.outs, strict=True)
        ]
        for a, b in zip(first, second, strict=True):
            for x, y in zip(reads(a), reads(b), strict=True):
                if id(x) not in inside and id(y) in inside and all(x is not z for z, _ in self.carried):
                    self.carried.append((x, y))
        del statements[self.start :]
        statements.append(self)
        self._move(first)
        for a, b in pairs:
            b.statement, b.source = self, a
            whole = WrittenTensor(self.scope, self, self._joined(a.value), f"{a.hint or 'y'}s")
            whole.source, whole.every = a, True
            a.collected = b.collected = whole
            self.outs.append(b)
        self.every = list(self.outs)

    def _joined(self, value: ShapeTensor) -> ShapeTensor:
        return ShapeTensor(value.shape, value.dtype)

    def _move(self, statements: list[PendingLine]) -> None:
        """Give the body a scope of its own, whose parameters are what it reads from outside."""
        body = self.call = type(self.scope)(self.scope.what, functions=self.scope.functions)
        inside = {id(x) for s in statements for x in s.outs}
        for statement in statements:
            for i, part in enumerate(statement.parts):
                if isinstance(part, tuple) and id(part[0]) not in inside:
                    x = part[0]
                    statement.parts[i] = body.param(x, x.value, x.hint), part[1]
                    if isinstance(statement, Loop):
                        statement.renamed(x, statement.parts[i][0])
        body.statements = statements
        inside = {id(item) for _, item in self.items}
        outer = [p.source for p in body.params if id(p.source) not in inside]
        self.parts = [(x, ATOM) for x in (*(sequence for sequence, _ in self.items), *outer)]

    def renamed(self, x: WrittenTensor, y: WrittenTensor) -> None:
        """Read y in place of x, as the loop stands within another now."""
        self.items = [(y if sequence is x else sequence, item) for sequence, item in self.items]
        self.carried = [(y if init is x else init, out) for init, out in self.carried]
        for p in self.call.params:
            p.source = y if p.source is x else p.source


def _form(statement: PendingLine) -> list[Any]:
    return [part if isinstance(part, str) else part[1] for part in statement.parts]


class LoopedPieces:
    """The pieces of a tensor along an axis, over which the code of an operation loops."""

    def __init__(self, x: WrittenTensor, call: str, args: tuple[Any, ...], axis: int, length: Any) -> None:
        self.x, self.call, self.args, self.axis, self.length = x, call, args, axis, length

    def __iter__(self) -> Iterator[WrittenTensor]:
        scope, x = self.x.scope, self.x
        sequence = scope.recorded([(x, ATOM), f".{self.call}(", *arguments(self.args, {}), ")"], x.value)
        sequence.axis_size = x.value.shape[self.axis]
        sequence.hint = f"{x.hint or 'y'}_pieces"
        shape = list(x.value.shape)
        if self.length is None:
            del shape[self.axis]
        else:
            shape[self.axis] = coded(int(self.length), "\x02Q\x03")
        yield from self._twice(scope, sequence, ShapeTensor(tuple(shape), x.value.dtype))

    def _twice(self, scope: Any, sequence: WrittenTensor, piece: ShapeTensor) -> Iterator[WrittenTensor]:
        # those that are zipped follow each other without a statement of the body
        joins = scope.loop is not None and scope.loop.start == len(scope.statements) - 1
        joins = joins and all(self.x is not item for _, item in scope.loop.items)
        loop, leads = scope.loop if joins else Loop(scope), not joins
        above, scope.loop = scope.loop, loop
        loop.start = len(scope.statements)
        item = WrittenTensor(scope, PendingLine([]), piece, self.x.hint)
        loop.items.append((sequence, item))
        yield item
        if leads:
            loop.middle = len(scope.statements)
        yield WrittenTensor(scope, PendingLine([]), ShapeTensor(piece.shape, piece.dtype), self.x.hint)
        if leads:
            scope.loop = above
            loop.close()
