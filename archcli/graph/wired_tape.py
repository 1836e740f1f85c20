"""WiredTape: the tape that also says which row made each tensor. Counting alone does not pay for it."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, TypeVar

from archcli.graph.count_tape import Abstract, CountTape, OpAnswer, ShapeTape, StateTape, join
from archcli.graph.op import Op, Tensor
from archcli.graph.part import State
from archcli.graph.row import Row

T = TypeVar("T", bound=CountTape)

INPUT = "input"
"""The id of what a forward is given: tokens, features."""


class RowIds:
    """Ids of rows: each path, with a number where it occurs again."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def next(self, path: str) -> str:
        """The id of the next row of a path."""
        number = self.seen[path] = self.seen.get(path, 0) + 1
        return path if number == 1 else f"{path}#{number}"


class MadeBy(NamedTuple):
    """The source of a tensor: a row's number, and the index of its output or the name of its weight."""

    row: int
    which: int | str = 0


@dataclass(slots=True)
class WiredRow(Row):
    """A row with its id and with the ids of its operation's inputs, in order.

    id: the path; `path#2` for the second row of the same path.
    reads: `id` for the first output of that row, `id:1` for its second, `id:weight` for its weight of that
        name, `input` for what the forward is given. None for a row of weights by themselves.
    layers: the layers of its stack that it stands for, by number; None for a row outside of all layers.
    kept: which of its outputs the cache keeps as they are; `states` has all that it leaves in the cache.
    """

    id: str = ""
    reads: tuple[str, ...] | None = None
    layers: tuple[int, ...] | None = None
    kept: tuple[int, ...] = ()


@dataclass(slots=True)
class Wires:
    """How the rows of a trace hang together, as its tapes note it.

    reads: the sources of each row's inputs, by the row's number; None for an input of the model.
    entered: the source of the first tensor of each call of a module, by the module's path: a layer's stream.
    left: the source of the first tensor that it returns.
    modules: the module that is called, by its path.
    shares: the key of the weights that a module uses together with others, by its path.
    """

    reads: dict[int, tuple[MadeBy | None, ...]] = field(default_factory=dict)
    entered: dict[str, MadeBy | None] = field(default_factory=dict)
    left: dict[str, MadeBy | None] = field(default_factory=dict)
    modules: dict[str, Any] = field(default_factory=dict)
    shares: dict[str, str] = field(default_factory=dict)


class WiredTape(ShapeTape):
    """A ShapeTape that records which row made each input of an operation."""

    __slots__ = ("wiring",)
    row_kind: ClassVar[type[Row]] = WiredRow

    def __init__(self, rows: list[Row], *args: Any, **options: Any) -> None:
        super().__init__(rows, *args, **options)
        self.wiring = Wires()

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Write the op's row and its inputs' places; returns abstract outputs that know their row."""
        self.wiring.reads[len(self.rows)] = tuple([x.value.place for x in xs])
        return super().emit(op, *xs, group=group, trained=trained)

    def weight(
        self, op: Op, *xs: Tensor, group: str = "", trained: bool = True, which: str = "weight"
    ) -> Tensor:
        """The op's weight, which knows its row."""
        tensor = super().weight(op, *xs, group=group, trained=trained, which=which)
        path = join(self.path, op.name)
        row = next(i for i in range(self.start, len(self.rows)) if self.rows[i].path == path)
        return Tensor(self, tensor.value._replace(place=MadeBy(row, which)))

    def call(self, module: Any, name: str, *args: Any, **options: Any) -> Any:
        """Count the child's forward; records its first input and output, and whose weights it shares."""
        path = join(self.path, name)
        self.wiring.entered[path] = args[0].value.place if args else None
        if options.get("shares"):
            self.wiring.shares[path] = options["shares"]
        self.wiring.modules[path] = module
        outputs = super().call(module, name, *args, **options)
        first = outputs[0] if type(outputs) is tuple else outputs
        self.wiring.left[path] = first.value.place
        return outputs

    def _child(self, cls: type[T], **changes: Any) -> T:
        child = super()._child(cls, **changes)
        # a tape that declares the weights of what does not run has none
        if isinstance(child, WiredTape):
            child.wiring = self.wiring
        return child

    def _tensors(self, answer: OpAnswer, *, grad: bool) -> Any:
        number = len(self.rows) - 1
        tensors = tuple(
            [Tensor(self, Abstract(shape, grad, MadeBy(number, i))) for i, shape in enumerate(answer.outputs)]
        )
        return tensors if answer.many else tensors[0]


class CachingTape(StateTape):
    """A StateTape that notes the source of each state: the output of an operation, by row ids.

    cached: the id of each operation that caches something, and what.
    makers: by id, which operation and which of its outputs made an operation's first input.
    """

    __slots__ = ("cached", "ids", "makers")

    def __init__(self, rows: list[Row], *args: Any, **options: Any) -> None:
        super().__init__(rows, *args, **options)
        self.cached: list[tuple[str, tuple[State, ...]]] = []
        self.makers: dict[str, tuple[str, int] | None] = {}
        self.ids = RowIds()

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Note what the op caches, and what made its first input; no row is written."""
        answer = self._answer(op, [x.value.shape for x in xs], [], trained=trained)
        row_id = self.ids.next(join(self.path, op.name))
        self.makers[row_id] = xs[0].value.place if xs else None
        if answer.states:
            self.cached.append((row_id, answer.states))
        tensors = tuple(
            [Tensor(self, Abstract(shape, place=(row_id, i))) for i, shape in enumerate(answer.outputs)]
        )
        return tensors if answer.many else tensors[0]

    def _child(self, cls: type[T], **changes: Any) -> T:
        child = super()._child(cls, **changes)
        if isinstance(child, CachingTape):
            child.cached, child.makers, child.ids = self.cached, self.makers, self.ids
        return child

    def keeper(self, row_id: str, among: Container[str]) -> tuple[str, tuple[int, ...]]:
        """The source of an operation's cached tensor: a row and the index of its output.

        The operation itself, without an output, where it is one of them.
        """
        output: tuple[int, ...] = ()
        while row_id not in among and (maker := self.makers.get(row_id)) is not None:
            row_id, output = maker[0], (maker[1],)
        return row_id, output


class WiredTrace(NamedTuple):
    """The rows of a forward, what enters and leaves each module first, and the weights that it shares.

    `entered` and `left` have an id as `reads` has it, by the module's path; `modules` the module itself, and
    `shares` the key of its weights.
    """

    rows: tuple[WiredRow, ...]
    entered: dict[str, str]
    shares: dict[str, str]
    left: dict[str, str]
    modules: dict[str, Any]


def wired(rows: Sequence[Row], wiring: Wires) -> WiredTrace:
    """The rows with their ids and with the ids of their inputs."""
    unique = RowIds()
    ids = [unique.next(row.path) for row in rows]
    entered = {path: _name(source, ids) for path, source in wiring.entered.items()}
    left = {path: _name(source, ids) for path, source in wiring.left.items()}
    return WiredTrace(tuple(_named(rows, wiring, ids)), entered, wiring.shares, left, wiring.modules)


def source_row(read: str) -> str:
    """The id of the row that a read names: without the number of its output, or its weight's name."""
    return read.partition(":")[0]


def _named(rows: Sequence[Row], wiring: Wires, ids: list[str]) -> Iterator[WiredRow]:
    for number, plain in enumerate(rows):
        # a tape that declares weights writes plain rows
        row = plain if isinstance(plain, WiredRow) else _copied(plain)
        sources = wiring.reads.get(number)
        row.id = ids[number]
        row.reads = None if sources is None else tuple([_name(source, ids) for source in sources])
        yield row


def _copied(row: Row) -> WiredRow:
    values: Any = {of.name: getattr(row, of.name) for of in fields(Row)}
    return WiredRow(**values)


def _name(source: MadeBy | None, ids: list[str]) -> str:
    if source is None:
        return INPUT
    return f"{ids[source.row]}:{source.which}" if source.which else ids[source.row]
