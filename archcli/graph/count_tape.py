"""CountTape: the tape that counts. It writes a `Row` for every operation, from shapes alone.

The other tapes, in `archcli.wings.running.runtime`, build and run a real network.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import chain
from operator import attrgetter
from types import NoneType
from typing import Any, ClassVar, NamedTuple, TypeVar

from archcli.arith import Number, Shape, is_whole, repetitions, rounded_shape
from archcli.graph.op import Op, Tape, Tensor, tree_map
from archcli.graph.part import Part, State
from archcli.graph.row import Experts, Row

# exact types, not isinstance: the number of a sweep passes as an int
INTS = frozenset({int})
PLAIN = frozenset({bool, int, float, str, NoneType})


class OpAnswer(NamedTuple):
    """What an operation answers for inputs of given shapes.

    outputs, weights: shapes. many: it returns a tuple of outputs.
    parts: of its cost. states: what it caches.
    grad: a gradient flows to its outputs. trained: its weights get one.
    """

    outputs: tuple[Shape, ...]
    many: bool
    weights: dict[str, Shape]
    parts: tuple[Part, ...]
    states: tuple[State, ...]
    grad: bool
    trained: bool


def key_of(op: Op, shapes: Sequence[Shape]) -> Hashable | None:
    """What the answer depends on: the operation's settings without its name, and the shapes.

    None where a size is no plain int: symbols, arrays and deferred numbers define equality themselves, and to
    hash the number of a sweep would narrow the sweep to one candidate.
    """
    if not INTS.issuperset(map(type, chain.from_iterable(shapes))):
        return None
    settings = settings_of(op)
    return (type(op), settings, *shapes) if _is_plain(settings) else None


def settings_of(record: Any) -> tuple[Any, ...]:
    """The settings of an operation, mask or rotation, without its name."""
    kind: Any = type(record)  # mypy takes type[Any] for unhashable
    return _settings(kind)(record)


@cache
def _settings(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Reads the settings of an operation, mask or rotation as a tuple, without its name."""
    # the name is part of the row's path and changes no cost
    names = [field.name for field in fields(kind) if field.name != "name"]
    if not names:
        return lambda record: ()  # noqa: ARG005
    read = attrgetter(*names)
    # attrgetter of one name returns the value itself, no tuple
    return read if len(names) > 1 else lambda record: (read(record),)


def _is_plain(settings: tuple[Any, ...]) -> bool:
    """Whether settings are plain numbers and words, or records of such."""
    return PLAIN.issuperset(map(type, settings)) or all(map(_is_plain_value, settings))


def _is_plain_value(value: Any) -> bool:
    kind: Any = type(value)  # mypy takes type[Any] for unhashable
    if kind is tuple:
        return _is_plain(value)
    return kind in PLAIN or (is_dataclass(value) and _is_plain(_settings(kind)(value)))


def needed(part: Part, grads: list[bool], *, trained: bool) -> Part:
    """Drop unneeded gradients: of inputs such as token ids, and of frozen weights."""
    kept = tuple(back for back in part.backward if _flows(back.wrt, grads, trained=trained))
    return part if len(kept) == len(part.backward) else replace(part, backward=kept)


def _flows(wrt: int | str | tuple[int, ...] | None, grads: list[bool], *, trained: bool) -> bool:
    """Whether a gradient flows to any of the inputs or weights that `wrt` names."""
    if isinstance(wrt, str):
        return trained
    # a part that names nothing yields all gradients of its op at once
    if wrt is None:
        return trained or any(grads)
    return any(grads[i] for i in ((wrt,) if isinstance(wrt, int) else wrt))


T = TypeVar("T", bound="CountTape")


class Abstract(NamedTuple):
    """A tensor without values: its shape, and whether a gradient flows to it.

    Where memory is counted, also its place: the storage, the bytes of an element, and the step that made it.
    A tensor without a storage is a weight, an input of the model or what the cache held before.
    """

    shape: Shape
    grad: bool = True
    place: Any = None


class CountTape:
    """Writes a Row for each op.

    A child tape shares the list of rows and differs in path, repetition, experts and group.
    """

    __slots__ = ("answers", "experts", "group", "keys", "path", "rows", "start", "stored", "times")
    row_kind: ClassVar[type[Row]] = Row

    def __init__(
        self,
        rows: list[Row],
        path: str = "",
        times: Number = 1,
        experts: Experts | None = None,
        group: str = "",
        *,
        stored: Number | None = None,
        keys: set[str] | None = None,
    ) -> None:
        # not `keys or set()`: a parent's set is empty at first, and children must share it
        self.stored, self.keys = stored, set() if keys is None else keys
        self.answers: dict[Any, OpAnswer] = {}
        self.rows, self.path, self.times, self.experts, self.group = rows, path, times, experts, group
        # `weight` looks for rows from here on
        self.start = len(rows)

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Write the op's row; returns abstract outputs."""
        shapes, grads = [x.value.shape for x in xs], [x.value.grad for x in xs]
        answer = self._answer(op, shapes, grads, trained=trained)
        self._row(op, shapes, answer, group)
        return self._tensors(answer, grad=answer.grad)

    def weight(
        self, op: Op, *xs: Tensor, group: str = "", trained: bool = True, which: str = "weight"
    ) -> Tensor:
        """The op's weight, from its row or from a new row without cost."""
        path = join(self.path, op.name)
        since = self.rows[self.start :]  # not all rows: layers of arrays share the path `layers.?`
        row = next((row for row in since if row.path == path), None)
        if row is None:
            shapes = [x.value.shape for x in xs]
            # without a cost: the op that multiplies with the weight states it
            answer = self._answer(op, shapes, [], trained=trained, costs=False)
            row = self._row(op, shapes, answer, group)
        return Tensor(self, Abstract(row.weights[which], row.trained))

    def declaring(self) -> CountTape | None:
        """A tape that writes a row without cost for each op that owns weights, at the same path."""
        return self._child(DeclaringTape)

    def unshared(self) -> CountTape:
        """A tape at the same path whose weights are stored for each occurrence."""
        return self._child(type(self), stored=None)

    def call(self, module: Any, name: str, *args: Any, **options: Any) -> Any:
        """Count the child's forward with the path, repetition, experts and group it is called with."""
        group = options.get("group") or module.group or self.group
        experts = options.get("experts") or self.experts
        child = self._child(
            self._kind(options.get("no_grad")),
            path=join(self.path, name),
            times=self.times * options.get("times", 1),
            experts=experts,
            group=group,
            stored=self._stored(options.get("shares")),
        )
        return _rebind(self, module.forward(*_rebind(child, args)))

    def inline(self, module: Any, group: str, *args: Any, no_grad: Any = None, **options: Any) -> Any:
        """Count the module's ops under this path and the given group."""
        child = self._child(self._kind(no_grad), group=group or self.group)
        return _rebind(self, module.forward(*_rebind(child, args), **options))

    def _kind(self, no_grad: Any) -> type[CountTape]:
        """The kind of tape for a child that is called with this option."""
        return self.unread if no_grad == "unread" else self.gradless if no_grad else type(self)

    @property
    def gradless(self) -> type[CountTape]:
        """The kind of tape for a child through which no gradient flows."""
        return GradlessTape

    @property
    def unread(self) -> type[CountTape]:
        """The kind of tape for a child whose output nothing reads."""
        return self.gradless

    def _child(self, cls: type[T], **changes: Any) -> T:
        """A tape on the same rows, with some values changed."""
        child = cls(
            self.rows, self.path, self.times, self.experts, self.group, stored=self.stored, keys=self.keys
        )
        for name, value in changes.items():
            setattr(child, name, value)
        # shared by all tapes of a trace: layers that are alike ask each op once
        child.answers = self.answers
        return child

    def _stored(self, key: str | None) -> Number | None:
        """How many occurrences of a child store its weights; `key` is that of weights it shares."""
        if key is None:
            return self.stored
        first = key not in self.keys
        self.keys.add(key)
        # 0 where an enclosing module's weights are stored elsewhere: nothing in it is stored again
        return 1 if first and self.stored != 0 else 0

    def occurrences(
        self, n_layers: Number, period: int, *, apart: bool = False
    ) -> Iterator[tuple[int, Number]]:
        """Each layer of the pattern once, with how many of the N layers are like it.

        With `apart` the first occurrence of each comes before the others, and is none of them.
        """
        times = [(i, repetitions(n_layers, period, i)) for i in range(period)]
        yield from ((i, 1) if apart else (i, number) for i, number in times)
        if apart:
            # a symbolic number is never 1: what is left of it stays, even where it may come to 0
            several = [(i, number) for i, number in times if not (is_whole(number) and number == 1)]
            yield from ((i + period, number - 1) for i, number in several)

    def _answer(
        self, op: Op, shapes: list[Shape], grads: list[bool], *, trained: bool, costs: bool = True
    ) -> OpAnswer:
        """Shapes, weights, cost and states of the op for these inputs, computed once for equal inputs."""
        return self._answered(key_of(op, shapes), op, shapes, grads, trained=trained, costs=costs)

    def _answered(
        self,
        key: Hashable | None,
        op: Op,
        shapes: list[Shape],
        grads: list[bool],
        *,
        trained: bool,
        costs: bool = True,
    ) -> OpAnswer:
        """The answer for an op, looked up by `key`, or computed and stored; `key` None: only computed."""
        if key is None:
            return self._ask(op, shapes, grads, trained=trained, costs=costs)
        # the kind of tape decides on cost and backward, and children of other kinds share the answers
        key = key, *grads, trained, costs, type(self)
        answer = self.answers.get(key)
        if answer is None:
            answer = self.answers[key] = self._ask(op, shapes, grads, trained=trained, costs=costs)
        return answer

    def _ask(self, op: Op, shapes: list[Shape], grads: list[bool], *, trained: bool, costs: bool) -> OpAnswer:
        out, weights = self._shape(op, shapes), op.weights(*shapes)
        many = bool(out) and isinstance(out[0], tuple)
        return OpAnswer(
            out if many else (out,),
            many,
            weights,
            self._parts(op, shapes, grads, trained=trained) if costs else (),
            op.states(*shapes),
            # a frozen op hands gradients on, but starts none
            grad=op.trained(grads, *shapes) and (trained or any(grads)),
            # a frozen table's weights get no gradient
            trained=trained and (not weights or op.trained([False] * len(shapes), *shapes)),
        )

    def _shape(self, op: Op, shapes: list[Shape]) -> Any:
        """The shape or shapes of the op's outputs."""
        return op.shape(*shapes)

    def _parts(self, op: Op, shapes: list[Shape], grads: list[bool], *, trained: bool) -> tuple[Part, ...]:
        """The op's cost, without gradients of token ids, frozen weights and the like."""
        parts = op.parts(*shapes)
        if not parts and not op.zero_cost_reason:
            raise NotImplementedError(f"{type(op).__name__} states no cost and no reason for having none")
        if trained and all(grads):
            return parts
        return tuple([needed(part, grads, trained=trained) for part in parts])

    def _tensors(self, answer: OpAnswer, *, grad: bool) -> Any:
        """The abstract tensor that an op returns, or a tuple of them."""
        if not answer.many:
            return Tensor(self, Abstract(answer.outputs[0], grad))
        return tuple([Tensor(self, Abstract(shape, grad)) for shape in answer.outputs])

    def _row(self, op: Op, shapes: list[Shape], answer: OpAnswer, group: str) -> Row:
        row = self.row_kind(
            path=join(self.path, op.name),
            group=group or self.group,
            op=op,
            inputs=tuple(shapes),
            outputs=answer.outputs,
            weights=answer.weights,
            parts=answer.parts,
            states=answer.states,
            times=self.times,
            experts=self.experts,
            trained=answer.trained,
            stored=self.stored,
        )
        self.rows.append(row)
        return row


class WholeTape(CountTape):
    """A CountTape with whole numbers in its shapes: expected sizes rounded, as torch runs them on meta."""

    __slots__ = ()

    def _shape(self, op: Op, shapes: list[Shape]) -> Any:
        return rounded_shape(op.shape(*shapes))


class GradlessTape(CountTape):
    """A CountTape of a module through which no gradient flows: no operation has a backward."""

    __slots__ = ()

    def _parts(self, op: Op, shapes: list[Shape], grads: list[bool], *, trained: bool) -> tuple[Part, ...]:
        parts = super()._parts(op, shapes, grads, trained=trained)
        return tuple([replace(part, backward=()) if part.backward else part for part in parts])

    def _tensors(self, answer: OpAnswer, *, grad: bool) -> Any:
        return super()._tensors(answer, grad=False)


class ShapeTape(CountTape):
    """A CountTape that writes rows without costs, for their shapes, parameters and states."""

    __slots__ = ()

    @property
    def gradless(self) -> type[CountTape]:
        """The same: it has no costs."""
        return type(self)

    def _parts(self, op: Op, shapes: list[Shape], grads: list[bool], *, trained: bool) -> tuple[Part, ...]:
        return ()


class DeclaringTape(ShapeTape):
    """A ShapeTape for modules that no pass runs: it writes rows of operations with weights alone."""

    __slots__ = ()

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Write the op's row if it owns weights; returns abstract outputs."""
        shapes = [x.value.shape for x in xs]
        answer = self._answer(op, shapes, [], trained=trained)
        if answer.weights:
            self._row(op, shapes, answer, group)
        return self._tensors(answer, grad=False)


class StateTape(ShapeTape):
    """A ShapeTape that writes rows of operations with cached states alone."""

    __slots__ = ()

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Write the op's row if it caches anything; returns abstract outputs."""
        shapes = [x.value.shape for x in xs]
        answer = self._answer(op, shapes, [], trained=trained)
        if answer.states:
            self._row(op, shapes, answer, group)
        return self._tensors(answer, grad=True)

    def weight(
        self, op: Op, *xs: Tensor, group: str = "", trained: bool = True, which: str = "weight"
    ) -> Tensor:
        """The op's weight, without a row."""
        return Tensor(self, Abstract(op.weights(*[x.value.shape for x in xs])[which]))

    def declaring(self) -> CountTape | None:
        """None: what no pass runs caches nothing."""
        return None


def _rebind(tape: Tape, tree: Any) -> Any:
    return tree_map(lambda x: Tensor(tape, x.value), Tensor, tree)


def join(stem: str, name: str) -> str:
    """The path of a name below a stem; one of them where the other is empty."""
    return f"{stem}.{name}" if stem and name else stem or name
