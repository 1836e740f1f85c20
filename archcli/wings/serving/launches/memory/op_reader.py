"""A cache of operations' memory: equal calls are traced once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from itertools import chain
from typing import Any

from archcli.arith import Shape, is_symbolic
from archcli.graph import Op
from archcli.graph.count_tape import PLAIN, settings_of
from archcli.graph.kept import Call, In, Kept, MemoryLayout, OpMemory, Out
from archcli.modules.spec.base import Spec
from archcli.wings.serving.launches.dtypes import DType
from archcli.wings.serving.launches.log import NOT_KNOWN
from archcli.wings.serving.launches.memory.op_memory import model_dtype, op_memory

MOST_KNOWN = 1 << 16
"""The most cached calls: more than a thousand different layers make."""
_known: dict[Hashable, OpMemory] = {}


class OpReader:
    """Reads the tensors that a call keeps for its backward, and the storages of its outputs.

    Formulas, and numbers of many candidates, are compared by identity, within one pass: numbers that are
    equal for the first candidate may differ for others. `values`: of a formula's symbols.
    """

    def __init__(self, values: Mapping[Any, int] | None = None) -> None:
        self._values = values or {}
        self._of_pass: dict[Hashable, OpMemory] = {}
        self._held: list[Any] = []

    def __call__(self, op: Op, call: Call, shapes: Sequence[Shape], *, alive: bool = False) -> OpMemory:
        """The memory of a call, with `alive` also the most bytes alive in its run.

        Raises NotImplementedError for an operation that calls a function of torch which is not known, unless
        it states what it keeps, or the execution `assumes` all inputs and outputs.
        """
        held: list[Any] = []
        key = type(op), alive, _told_apart(op, held), _sizes_told_apart(call, shapes, held)
        known = self._of_pass if held else _known
        memory = known.get(key)
        if memory is None:
            if len(known) >= MOST_KNOWN:
                known.clear()
            memory = known[key] = self._computed(op, call, shapes, alive=alive)
            # hold these numbers: the key has their ids, which Python reuses once they are freed
            self._held += held
        kept = op.kept(call, *shapes)
        return memory if kept is None else memory._replace(kept=kept)

    def _computed(self, op: Op, call: Call, shapes: Sequence[Shape], *, alive: bool) -> OpMemory:
        if not any(map(is_symbolic, chain.from_iterable(shapes))):
            return _read(op, call, shapes, alive=alive)
        from archcli.wings.serving.launches.memory.guided import formulas, guided  # of formulas alone

        memory = _read(*guided((op, call, tuple(shapes)), self._values), alive=alive)
        return memory._replace(kept=formulas(memory.kept))


def _told_apart(op: Op, held: list[Any]) -> tuple[Hashable, ...]:
    """A key of an operation's settings, equal for operations that keep the same tensors."""
    settings = settings_of(op)
    return settings if HASHED.issuperset(map(type, settings)) else tuple(_plain(settings, held))


def _sizes_told_apart(call: Call, shapes: Sequence[Shape], held: list[Any]) -> tuple[Hashable, ...]:
    """A key of a call and its shapes: themselves where all sizes are plain numbers of one model."""
    strides = [layout.strides for layout in call.layouts if layout is not None and layout.strides is not None]
    sizes = chain(call.widths, (call.width, call.n_experts), *shapes, *strides)
    call_and_shapes = (call, *shapes)
    return call_and_shapes if HASHED.issuperset(map(type, sizes)) else tuple(_plain(call_and_shapes, held))


def _plain(values: tuple[Any, ...], held: list[Any]) -> Iterator[Hashable]:
    """A key of each value: itself, its fields, or the identity of a value that is then `held`."""
    for value in values:
        kind: Any = type(value)
        if kind in HASHED:
            yield value
        elif isinstance(value, tuple):
            yield (kind, *_plain(value, held))
        elif is_dataclass(value):
            yield (kind, *_plain(settings_of(value), held))
        # a module that an operation asks, such as RoPE for its frequencies: equal ones answer alike
        elif isinstance(value, Spec):
            yield (kind, *_plain(tuple([getattr(value, name) for name in value.fields]), held))
        else:
            held.append(value)
            yield id(value)


HASHED = PLAIN | {DType}
"""Types of values that are part of a key; others are by their fields, or by identity."""


def _read(op: Op, call: Call, shapes: Sequence[Shape], *, alive: bool) -> OpMemory:
    try:
        return op_memory(op, call, shapes, alive=alive)
    except NOT_KNOWN as problem:
        execution = call.execution
        is_assumed = execution.assumes or not execution.records or op.kept(call, *shapes) is not None
        if alive or not is_assumed:
            raise NotImplementedError(f"{type(op).__name__}: {problem}") from problem
    return _assumed(op, call, shapes)


def _assumed(op: Op, call: Call, shapes: Sequence[Shape]) -> OpMemory:
    """All inputs and outputs kept; outputs new, unless it is a view, in the first input's number type."""
    out = op.shape(*shapes)
    outputs = range(len(out) if out and isinstance(out[0], tuple) else 1)
    first = call.layouts[0] if call.layouts else None
    layout = MemoryLayout(model_dtype(call.execution.width) if first is None else first.dtype)
    kept: tuple[Kept, ...] = (*[In(i) for i in range(len(shapes))], *[Out(i) for i in outputs])
    return OpMemory(kept, (0 if op.is_view else None,) * len(outputs), (layout,) * len(outputs))
