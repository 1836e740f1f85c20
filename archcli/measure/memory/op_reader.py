"""Read each operation's memory off its `run`, once for all calls that are alike."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from itertools import chain
from typing import Any

from archcli.arith import Shape, is_symbolic
from archcli.graph import Op
from archcli.graph.count_tape import PLAIN, settings_of
from archcli.graph.kept import Call, In, MemoryLayout, OpMemory, Out
from archcli.launches.dtypes import DType
from archcli.launches.log import NOT_KNOWN
from archcli.launches.op_memory import model_dtype, op_memory

MOST_KNOWN = 4096
"""The most calls whose memory is remembered: more than all of one model's."""
_known: dict[Hashable, OpMemory] = {}


class OpReader:
    """Reads what the backward of each call of a pass keeps, and where its outputs lie.

    Numbers that stand for many candidates, and formulas, are known by identity as long as the pass lasts: an
    equal one may not be equal of all candidates. `values` are those of a formula's symbols.
    """

    def __init__(self, values: Mapping[Any, int] | None = None) -> None:
        self._values = values or {}
        self._of_pass: dict[Hashable, OpMemory] = {}
        self._held: list[Any] = []

    def __call__(self, op: Op, call: Call, shapes: Sequence[Shape]) -> OpMemory:
        """The memory of a call.

        Raises NotImplementedError for an operation that calls a function of torch which is not known, unless
        it states what it keeps, or the execution `assumes` all inputs and outputs.
        """
        held: list[Any] = []
        key = type(op), *_plain((settings_of(op), *shapes, call), held)
        known = self._of_pass if held else _known
        memory = known.get(key)
        if memory is None:
            if len(known) >= MOST_KNOWN:
                known.clear()
            memory = known[key] = self._made(op, call, shapes)
            self._held += held  # an id is that of its number while this holds it
        return memory

    def _made(self, op: Op, call: Call, shapes: Sequence[Shape]) -> OpMemory:
        if not any(map(is_symbolic, chain.from_iterable(shapes))):
            return _read(op, call, shapes)
        from archcli.measure.symbolic.guided import formulas, guided  # of formulas alone

        memory = _read(*guided((op, call, tuple(shapes)), self._values))
        return memory._replace(kept=formulas(memory.kept))


def _plain(values: tuple[Any, ...], held: list[Any]) -> Iterator[Hashable]:
    """Values as what tells them apart: themselves, or the identity of those `held`."""
    for value in values:
        kind: Any = type(value)
        if kind in HASHED:
            yield value
        elif isinstance(value, tuple):
            yield (kind, *_plain(value, held))
        elif is_dataclass(value):
            yield (kind, *_plain(settings_of(value), held))
        else:
            held.append(value)
            yield id(value)


HASHED = PLAIN | {DType}


def _read(op: Op, call: Call, shapes: Sequence[Shape]) -> OpMemory:
    try:
        return op_memory(op, call, shapes)
    except NOT_KNOWN as problem:
        kept = op.kept(call, *shapes)
        if kept is None and not call.execution.assumes:
            raise NotImplementedError(f"{type(op).__name__}: {problem}") from problem
    out = op.shape(*shapes)
    outputs = range(len(out) if out and isinstance(out[0], tuple) else 1)
    if kept is None:
        kept = (*(In(i) for i in range(len(shapes))), *(Out(i) for i in outputs))
    layout = call.layouts[0] if call.layouts and call.layouts[0] is not None else None
    dtype = model_dtype(call.execution.width) if layout is None else layout.dtype
    view = 0 if op.is_view else None
    return OpMemory(kept, (view,) * len(outputs), (MemoryLayout(dtype),) * len(outputs))
