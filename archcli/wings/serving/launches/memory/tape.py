"""MemoryTape: a tape that writes rows, and a ledger of the storages that are alive.

Layers that repeat are traced three times: the first period, one for all in the middle, and the last. So each
tensor that one layer hands to the next has the right maker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeVar
from weakref import ref

from archcli.arith import Number, Shape, is_whole, maximum, minimum, prod, repetitions
from archcli.graph.count_tape import Abstract, CountTape, StateTape, join
from archcli.graph.kept import FP32, SAME, Call, Execution, In, Kept, MemoryLayout, OfMixture, OpMemory, Out
from archcli.graph.op import Op, Tensor, tree_map
from archcli.graph.part import NO_WORKSPACE, OpClass, Part, Workspace
from archcli.graph.row import Row
from archcli.wings.serving.launches.memory.storage import (
    Allocation,
    Ledger,
    LiveStorage,
    Recomputed,
    Step,
    Value,
)
from archcli.wings.serving.launches.memory.written import ARCHCLI, weights_type

T = TypeVar("T", bound=CountTape)


class Placement(NamedTuple):
    """Where a tensor lies: its storage, the bytes of an element, and the step and output that made it.

    storage: None for a weight or an input of the model.
    width: bytes of an element.
    value: the step and output that made it.
    layout: None for a tensor that no operation made, which is contiguous.
    graph: storages that autograd keeps for the backward of a tensor that nothing reads, while it lives.
    """

    storage: LiveStorage | None
    width: Number
    value: Value | None = None
    layout: MemoryLayout | None = None
    graph: Any = None


class MemoryReader(Protocol):
    """Reads the memory of a run of an operation."""

    def __call__(self, op: Op, call: Call, shapes: Sequence[Shape], *, alive: bool = False) -> OpMemory:
        """Tensors kept for the backward, storages of outputs; with `alive` the most bytes during the run."""


class InPeriods(CountTape):
    """A CountTape that traces the first, the middle and the last layers of a pattern apart."""

    __slots__ = ()

    def occurrences(
        self, n_layers: Number, period: int, *, apart: bool = False
    ) -> Iterator[tuple[int, Number]]:
        """The first period, one for the middle, and the last layers; a short group layer by layer."""
        if not is_whole(n_layers):
            # a symbolic depth has no remainder: assume three whole periods or more
            yield from ((i, 1) for i in range(period))
            yield from ((i + period, repetitions(n_layers, period, i) - 2) for i in range(period))
            yield from ((i + 2 * period, 1) for i in range(period))
            return
        # the last layers include the remainder, so that those in the middle are whole periods
        last = period + n_layers % period
        if n_layers <= last + 2 * period:
            yield from ((i, 1) for i in range(n_layers))
            return
        times = (n_layers - period - last) // period
        yield from ((i, 1) for i in range(period))
        yield from ((i, times) for i in range(period, 2 * period))
        # in a sweep n_layers holds the depths of many candidates: an index by it would differ among them
        start = n_layers - last if type(n_layers) is int else 2 * period
        yield from ((start + i, 1) for i in range(last))


class FilledTape(InPeriods, StateTape):
    """A StateTape whose cache a MemoryTape can continue."""

    __slots__ = ()


class TracedRun(NamedTuple):
    """A run of an operation: tensors kept for its backward, places of its outputs, and temporaries."""

    kept: tuple[Kept, ...]
    places: list[Placement]
    workspace: Workspace


class MemoryTape(InPeriods):
    """Writes a row for each op, and its storages, kept tensors and peak into the ledger."""

    __slots__ = ("code", "execution", "ledger", "mixture", "read", "recomputed", "region")
    records = True

    def __init__(self, rows: list[Row], *args: Any, **options: Any) -> None:
        super().__init__(rows, *args, **options)
        self.ledger, self.execution = Ledger(), Execution()
        self.read: MemoryReader
        self.code = ARCHCLI
        # the modules that the backward recomputes, and the path of such a module around this one
        self.recomputed = Recomputed()
        self.region: str | None = None
        # indices that all matrices of routed experts share: the expert of each token, the end of its tokens
        self.mixture: dict[str, LiveStorage | None] = {}

    def _child(self, cls: type[T], **changes: Any) -> T:
        child = super()._child(cls, **changes)
        if isinstance(child, MemoryTape):
            child.ledger, child.execution, child.read = self.ledger, self.execution, self.read
            child.code = self.code
            child.recomputed, child.region = self.recomputed, self.region
            child.mixture = self.mixture
            # an inline module keeps the path of its caller and begins no region
            if self.region is None and child.path != self.path and self.recomputed(child.path):
                child.region = child.path
        return child

    @property
    def gradless(self) -> type[CountTape]:
        """The kind of tape for a child through which no gradient flows."""
        return GradlessMemoryTape

    @property
    def unread(self) -> type[CountTape]:
        """The kind of tape for a child whose output nothing reads."""
        return UnreadMemoryTape

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Write the op's row, and note what is alive while it runs and what its backward keeps."""
        shapes, grads = [x.value.shape for x in xs], [x.value.grad for x in xs]
        # costs are needed only for the moments of a recomputing backward, and are slow with symbols
        costs = self.execution.records and self.ledger.follows
        answer = self._answer(op, shapes, grads, trained=trained, costs=costs)
        row, grad = self._row(op, shapes, answer, group), self.records and answer.grad
        op = self.code(op, row.group)
        call = self._call(op, xs, trained=trained and bool(row.weights))
        workspace = space_of(op, call, row.inputs) if self.ledger.follows else NO_WORKSPACE
        memory = self.read(op, call, row.inputs, alive=workspace.running is None)
        running = memory.running if workspace.running is None else workspace.running
        places = self._places(op, memory, xs, row)
        if row.states and not self.execution.records:
            # an op returns what it caches behind its other outputs: (y, state), (seen, kept)
            for place in places[-len(row.states) :]:
                if place.storage is not None:
                    place.storage.cached()
        self.ledger.note(row.path, running)
        if grad and self.execution.records:
            workspace = workspace._replace(running=running)
            self._record(op, call, xs, row, TracedRun(memory.kept, places, workspace))
        tensors = tuple(
            [
                Tensor(self, Abstract(shape, grad, place))
                for shape, place in zip(row.outputs, places, strict=True)
            ]
        )
        return tensors if answer.many else tensors[0]

    def weight(
        self, op: Op, *xs: Tensor, group: str = "", trained: bool = True, which: str = "weight"
    ) -> Tensor:
        """The op's weight; its storage counts with the weights."""
        tensor = super().weight(op, *xs, group=group, trained=trained, which=which)
        width, path = self._weight_width(self.code(op, group)), join(self.path, op.name)
        value = Value(f"{path}.{which}", 0, prod(tensor.value.shape) * width)
        return Tensor(self, tensor.value._replace(place=Placement(None, width, value)))

    def call(self, module: Any, name: str, *args: Any, **options: Any) -> Any:
        """Run the child's forward; the cache of a repeated layer counts for each repetition."""
        path = join(self.path, name)
        if self.region is None and self.recomputed(path) and self.execution.records:
            tree_map(lambda x: self._save(x, path), Tensor, args)
        if "index" in options:
            self.mixture = {"expert_of": storage_of(options["index"])}
        out = super().call(module, name, *args, **options)
        times = options.get("times", 1)
        if isinstance(out, tuple) and not (is_whole(times) and times == 1):
            # out[0] is the residual stream, which the next layer replaces; the rest is each layer's cache
            tree_map(_repeat, Tensor, out[1:])
        return out

    def _save(self, x: Tensor, region: str) -> Tensor:
        """Keep an input of a region that is recomputed."""
        self._hold(storage_of(x), region)
        return x

    def _hold(self, storage: LiveStorage | None, region: str) -> None:
        """Keep a storage until the backward of a region is done."""
        if storage is not None:
            self.ledger.keep(storage)
            self.ledger.entries.setdefault(region, {})[id(storage.record)] = storage.record

    def _call(self, op: Op, xs: tuple[Tensor, ...], *, trained: bool) -> Call:
        width, places = self.execution.width, [x.value.place for x in xs]
        widths = tuple([width if place is None else place.width for place in places])
        n_experts = None if self.experts is None else self.experts.n_experts
        layouts = tuple([None if place is None else place.layout for place in places])
        grads = tuple([x.value.grad for x in xs])
        return Call(self.execution, grads, widths or (width,), trained, n_experts, layouts)

    def _places(self, op: Op, memory: OpMemory, xs: tuple[Tensor, ...], row: Row) -> list[Placement]:
        """Where the outputs lie: in new storages, or in those of inputs."""
        step = len(self.ledger.steps)
        places: list[Placement] = []
        for i, (shape, of, layout) in enumerate(zip(row.outputs, memory.views, memory.layouts, strict=True)):
            size = prod(shape) * layout.width
            if of == SAME:
                storage = places[-1].storage
            elif of is not None:
                storage = storage_of(xs[of])
            else:
                storage = None if op.is_weight else self._new(size, row.path)
            value = Value(f"{row.path}.weight" if op.is_weight else step, i, size)
            places.append(Placement(storage, layout.width, value, layout))
        return places

    def _new(self, size: Number, path: str, pieces: Number = 1) -> LiveStorage:
        storage = LiveStorage(Allocation(size, self.times, path, pieces), self.ledger)
        if self.region is not None:
            # a weak reference: the ledger must not keep alive a storage that the forward has dropped
            self.ledger.region(self.region).storages.append(ref(storage))
        return storage

    def _record(self, op: Op, call: Call, xs: tuple[Tensor, ...], row: Row, run: TracedRun) -> None:
        """Write the step, and keep the storages that its backward needs."""
        # before the op's own kept tensors are made: they need not be alive with its workspace
        region, alive, space = self._region(xs, row.path), self._alive(), run.workspace
        storages = [self._kept(kept, xs, run.places, row.path) for kept in run.kept]
        # by identity: an op may keep a storage twice, and equal storages are not one
        kept = {id(storage.record): storage for storage in storages if storage is not None}
        if region is None:
            for storage in kept.values():
                self.ledger.keep(storage)
        elif self.region is not None and self.recomputed.keeps(row.path):
            # not run again: its results, and what it made for its backward
            results = (s for s, of in zip(storages, run.kept, strict=True) if not isinstance(of, In))
            for result in (*(place.storage for place in run.places), *results):
                self._hold(result, region)
        if not self.ledger.follows:
            return
        step = Step(
            row,
            inputs=tuple([x.value.place.value if x.value.grad and x.value.place else None for x in xs]),
            outputs=tuple([place.value for place in run.places if place.value is not None]),
            kept=tuple([storage.record for storage in kept.values()]),
            weight_gradients=self._weight_gradients(op, call, row),
            workspace=space,
            region=region,
            alive_again=self._alive_again(alive + space.running, kept),
            hands_on=op.is_view or op.passes_gradient,
            summed_bias=self._summed_bias(op, call, row),
        )
        self.ledger.steps.append(step)

    def _alive(self) -> Number:
        """Bytes of the recomputed module that are alive when its second run reaches this operation."""
        return 0 if self.region is None else self.ledger.region(self.region).alive(self.ledger.saved)

    def _alive_again(self, before: Number, kept: Mapping[int, LiveStorage]) -> Number:
        """The most bytes of that module while the operation runs again, with the tensors that it keeps."""
        if self.region is None:
            return 0
        # tensors that autograd has saved, such as the region's input, are counted in the ledger already
        region, saved = self.ledger.region(self.region), self.ledger.saved
        region.kept.update({key: storage.record for key, storage in kept.items() if key not in saved})
        return maximum(before, region.alive(saved))

    def _weight_gradients(self, op: Op, call: Call, row: Row) -> Number:
        """Bytes of the gradients of the row's own weights, of all experts that have them."""
        if not call.trained:
            return 0
        return row.unit_params * self._weight_width(op) * (1 if call.n_experts is None else call.n_experts)

    def _weight_width(self, op: Op) -> Number:
        """Bytes of an element of an operation's weights."""
        dtype = weights_type(op)
        return self.execution.width if dtype is None else dtype.itemsize

    def _summed_bias(self, op: Op, call: Call, row: Row) -> Number:
        """Bytes of the row's bias where its gradient is summed up on its own, else 0."""
        if not (op.sums_bias and call.trained and call.n_experts is None and "bias" in row.weights):
            return 0
        return prod(row.weights["bias"]) * self.execution.width

    def _region(self, xs: tuple[Tensor, ...], path: str) -> str | None:
        """The path of the recomputed region that an op is in: its module's, or its own."""
        if self.region is None and self.recomputed(path):
            for x in xs:
                self._save(x, path)
            return path
        return self.region

    def _kept(
        self, kept: Kept, xs: tuple[Tensor, ...], places: list[Placement], path: str
    ) -> LiveStorage | None:
        """The storage of a kept tensor; None for a weight or an input of the model."""
        if isinstance(kept, In):
            return storage_of(xs[kept.which])
        if isinstance(kept, Out):
            return places[kept.which].storage
        if isinstance(kept, OfMixture):
            if kept.name not in self.mixture:
                self.mixture[kept.name] = self._new(kept.elements * kept.width, path)
            return self.mixture[kept.name]
        return self._new(kept.bytes, path, kept.count)


class GradlessMemoryTape(MemoryTape):
    """A MemoryTape of a module through which no gradient flows."""

    __slots__ = ()
    records = False


class UnreadMemoryTape(MemoryTape):
    """A MemoryTape of a module whose output nothing reads.

    Autograd records its graph nevertheless, and frees it with the last tensor that refers to it.
    """

    __slots__ = ()

    @property
    def gradless(self) -> type[CountTape]:
        """The same kind of tape: unread tensors are held with or without gradients."""
        return type(self)

    def _parts(self, op: Op, shapes: list[Shape], grads: list[bool], *, trained: bool) -> tuple[Part, ...]:
        parts = super()._parts(op, shapes, grads, trained=trained)
        return tuple([replace(part, backward=()) for part in parts])

    def _record(self, op: Op, call: Call, xs: tuple[Tensor, ...], row: Row, run: TracedRun) -> None:
        if self.region is not None:
            return
        kept = [self._kept(kept, xs, run.places, row.path) for kept in run.kept]
        graph = kept, [x.value.place.graph for x in xs if x.value.place is not None]
        run.places[:] = [place._replace(graph=graph) for place in run.places]


INDEXER = "indexer"
"""The component of operations that score keys and choose among them."""


def space_of(op: Op, call: Call, inputs: Sequence[Shape]) -> Workspace:
    """The memory of a run besides inputs and outputs.

    An engine's indexer adds its heads up inside of a kernel: it holds what the choice reads, in fp32, in
    pieces of at most `scores` bytes. Its kernels bring the outputs of experts back without copies.
    """
    most = call.execution.scores
    if not call.execution.served or not (op.follows_run or op.component == INDEXER):
        return op.space(call, *inputs)
    parts = op.parts(*inputs)
    if op.component == INDEXER and most is not None:
        read = [part.read for part in parts if part.op_class is OpClass.ROUTING]
        return Workspace(minimum(sum(read) * FP32, most)) if read else op.space(call, *inputs)
    moves = all(part.op_class is OpClass.ROUTING for part in parts)
    return NO_WORKSPACE if parts and moves else op.space(call, *inputs)


def storage_of(x: Tensor) -> LiveStorage | None:
    """The storage of a tensor; None for a weight or an input of the model."""
    place = x.value.place
    return None if place is None else place.storage


def _repeat(x: Tensor) -> Tensor:
    storage = storage_of(x)
    if storage is not None:
        storage.repeat()
    return x
