"""Derive from an operation's `run` which tensors its backward keeps, and the layouts of its outputs.

`run` is called with the stand-in for torch. Autograd keeps the tensors of the forward that kernels of the
backward read, and those that torch saves besides (`GradNode.saved`). Tests compare this with the tensors that
torch saves, for every operation, storage by storage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

from archcli.arith import Number, Shape
from archcli.graph import Op
from archcli.graph.kept import SAME, Call, In, Kept, MemoryLayout, New, OfMixture, OpMemory, Out
from archcli.wings.serving.launches.dtypes import BOOL, FP32, INT64, NAMED, REAL, DType
from archcli.wings.serving.launches.functions.routed import MODULES, TokenAssignment, run_stacked
from archcli.wings.serving.launches.functions.torch_like import TORCH
from archcli.wings.serving.launches.kernel import StatedWork
from archcli.wings.serving.launches.log import GradNode, Log, logged, without_grad
from archcli.wings.serving.launches.memory.written import weights_type
from archcli.wings.serving.launches.tensor import ShapeTensor, TensorMemory

BY_WIDTH = {1: BOOL, 4: FP32, 8: INT64}
"""The dtype of an input without a layout, by its width, if that is not the model's."""


def model_dtype(width: Number) -> DType:
    """The dtype of a model by the bytes of an element; bf16 stands for fp16, which keeps as much."""
    return FP32 if width == FP32.itemsize else NAMED["bfloat16"]


class LongRunError(NotImplementedError):
    """An operation launches more than the limit, as in a Python loop over very many tokens."""


MOST_LAUNCHES, MOST_IN_INFERENCE = 100_000, 2_000
"""The most launches of an operation; fewer in inference, where a search traces many times.

archcli's operations stay far below: a loop over pieces of a tensor runs a few that stand for all.
"""


@dataclass(slots=True, eq=False)
class FollowedLog(Log):
    """A log without costs, of at most `left` launches."""

    left: int = MOST_LAUNCHES

    def run(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any], work: StatedWork) -> None:
        """torch runs a function on these tensors as one kernel."""
        self.left -= 1
        if self.left < 0:
            raise LongRunError("it launches too much to be followed")


@dataclass(slots=True, eq=False)
class KeptLog(FollowedLog):
    """A log of the storages that a forward creates (`results`) and its backward reads (`read`).

    Each storage, by its id, has a tensor that lies in it.
    """

    results: dict[int, ShapeTensor] = field(default_factory=dict)
    read: dict[int, ShapeTensor] = field(default_factory=dict)

    def run(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any], work: StatedWork) -> None:
        """torch runs a function on these tensors as one kernel."""
        FollowedLog.run(self, name, inputs, outputs, work)
        if self.stage == "forward":
            self.results.update({id(x.storage): x for x in outputs})
        else:
            self.keep(inputs)

    def keep(self, tensors: Sequence[Any]) -> None:
        """Note tensors that the backward needs."""
        self.read.update({id(x.storage): x for x in tensors})

    def kept_numbers(self) -> frozenset[int]:
        """The numbers of the forward's storages that the backward reads, in order of their creation."""
        return frozenset([i for i, key in enumerate(self.results) if key in self.read])


@dataclass(slots=True, eq=False)
class LiveLog(FollowedLog):
    """A log of the most bytes alive at once in storages that the forward makes.

    kept: numbers of storages that stay for the backward; all others end with their last tensor.
    live, peak: bytes alive now, and the most so far.
    ends: a weak reference to each storage, which calls back when it ends.
    held: kept storages, so that they do not end.
    """

    kept: frozenset[int] = frozenset()
    live: int = 0
    peak: int = 0
    ends: dict[int, ref[TensorMemory]] = field(default_factory=dict)
    held: list[TensorMemory] = field(default_factory=list)

    def run(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any], work: StatedWork) -> None:
        """torch runs a function on these tensors as one kernel."""
        FollowedLog.run(self, name, inputs, outputs, work)
        for x in outputs:
            # an output in the storage of an input is written in place: no new bytes
            if not any(x.storage is y.storage for y in inputs):
                self._begin(x.storage, x.storage.elements * x.dtype.itemsize * x.repeats)
        self.peak = max(self.peak, self.live)

    def _begin(self, storage: TensorMemory, size: int) -> None:
        number = len(self.ends)
        if number in self.kept:
            self.held.append(storage)
        self.live += size
        self.ends[number] = ref(storage, lambda _: self._end(size))

    def _end(self, size: int) -> None:
        self.live -= size

    def record(self, node: GradNode) -> None:
        """Drop the tensors of an autograd step, which would keep storages alive: `held` has the kept ones."""
        node.backward, node.inputs = _no_backward, ()


def _no_backward(*_: Any) -> tuple[Any, ...]:
    return ()


class ShapeRun:
    """One run of an operation on tensors without values: its inputs, weights and outputs."""

    def __init__(self, op: Op, call: Call, shapes: Sequence[Shape], log: Log) -> None:
        self.model = model_dtype(call.execution.width)
        self.inputs = [self._input(call, i, shape) for i, shape in enumerate(shapes)]
        self.weights = self._weights(op, call, shapes)
        self.routed: TokenAssignment | None = None
        if call.n_experts is not None:
            self.routed = TokenAssignment(ShapeTensor(shapes[0][:1], INT64), call.n_experts)
        with logged(log):
            self.outputs = [*_tensors(self._run(op, call, shapes))]

    def _input(self, call: Call, i: int, shape: Shape) -> ShapeTensor:
        layout = call.layouts[i] if call.layouts else None
        if layout is None:
            width = call.widths[i]
            layout = MemoryLayout(self.model if width == self.model.itemsize else BY_WIDTH[width])
        dtype: DType = layout.dtype
        grad = call.grads[i] and dtype.kind >= REAL
        return ShapeTensor(tuple(shape), dtype, layout.strides, requires_grad=grad)

    def _weights(self, op: Op, call: Call, shapes: Sequence[Shape]) -> dict[str, ShapeTensor]:
        buffers = op.buffers(*shapes)
        trained = call.trained and op.trained([False] * len(shapes), *shapes)
        stacked = () if call.n_experts is None else (call.n_experts,)
        held = weights_type(op) or self.model
        return {
            name: ShapeTensor(
                (*stacked, *shape),
                INT64 if name in op.whole_buffers else held,
                requires_grad=trained and name not in buffers,
            )
            for name, shape in {**op.weights(*shapes), **buffers}.items()
        }

    def _run(self, op: Op, call: Call, shapes: Sequence[Shape]) -> Any:
        """The outputs of the operation, run as the node of a built model runs it."""
        records, weights = call.execution.records, self.weights
        if self.routed is not None and weights:
            return run_stacked(op, weights, self.inputs, self.routed)
        if op.needs_module:
            return op.leaf(MODULES, *shapes)(weights, *self.inputs, records)
        if weights:
            return op.run(TORCH, weights, *self.inputs)
        op = op.in_training() if records else op
        return getattr(op, call.execution.run_as)(TORCH, {}, *self.inputs)

    def kept(self, log: KeptLog) -> tuple[Kept, ...]:
        """The tensors that the backward of all steps keeps, also of steps without a gradient."""
        log.stage = "backward"
        with logged(log), without_grad():
            for node in log.nodes:
                log.keep(node.saved)
                node.backward(*[ShapeTensor(shape, dtype) for shape, dtype in node.results])
        return tuple(self._known(log))

    def _known(self, log: KeptLog) -> Iterator[Kept]:
        """The storages that the backward read: inputs, outputs or new tensors. Weights are alive anyway."""
        yield from (In(i) for i in _firsts(self.inputs) if id(self.inputs[i].storage) in log.read)
        inputs, shared = self._inputs(), self._shared(log)
        outputs = [i for i in _firsts(self.outputs) if id(self.outputs[i].storage) not in inputs]
        yield from (Out(i) for i in outputs if id(self.outputs[i].storage) in log.read)
        yield from (kept for key, kept in shared.items() if key in log.read)
        outside = inputs | {id(self.outputs[i].storage) for i in outputs} | {*shared}
        for key, x in log.results.items():
            # tensors without axes are constants of an expression, a few bytes, and not counted
            if key in log.read and key not in outside and x.shape:
                yield New(x.storage.elements, x.dtype.itemsize, x.repeats)

    def _inputs(self) -> set[int]:
        """The storages of inputs and weights."""
        return {id(x.storage) for x in (*self.inputs, *self.weights.values())}

    def _shared(self, log: KeptLog) -> dict[int, OfMixture]:
        """Tensors that the operations of all experts share, or those of all layers."""
        shared = {
            id(x.storage): OfMixture(name, x.storage.elements, x.itemsize) for name, x in log.shared.items()
        }
        if self.routed is None:
            return shared
        shared[id(self.routed.expert_of.storage)] = OfMixture("expert_of")
        ends = self.routed.made_ends
        if ends is not None:
            shared[id(ends.storage)] = OfMixture("ends", ends.storage.elements, ends.dtype.itemsize)
        return shared

    def views(self) -> Iterator[int | None]:
        """For each output the index of the input in whose storage it lies; None for a new storage."""
        inputs = [x.storage for x in self.inputs]
        for i, x in enumerate(self.outputs):
            before = i and x.storage is self.outputs[i - 1].storage
            yield _index(inputs, x.storage) if not before else SAME

    def layouts(self) -> tuple[MemoryLayout, ...]:
        """The dtype and strides of each output."""
        return tuple([MemoryLayout(x.dtype, _unlike_axes(x)) for x in self.outputs])

    def running(self, log: LiveLog) -> int:
        """The most bytes alive at once during the run, without its inputs and outputs."""
        inputs = self._inputs()
        # by storage: two outputs may share one
        new = {
            id(x.storage): x.storage.elements * x.dtype.itemsize
            for x in self.outputs
            if id(x.storage) not in inputs
        }
        return int(log.peak - sum(new.values()))


def op_memory(op: Op, call: Call, shapes: Sequence[Shape], *, alive: bool = False) -> OpMemory:
    """Tensors kept for the backward, storages of outputs; with `alive` the most bytes during the run.

    Raises NotImplementedError, AttributeError or TypeError (`NOT_KNOWN`) for a function of torch that is not
    known.
    """
    execution = call.execution
    if execution.records:
        kept_log = KeptLog(execution.backend)
        run = ShapeRun(op, call, shapes, kept_log)
        kept = run.kept(kept_log)
        live = LiveLog(execution.backend, kept=kept_log.kept_numbers())
        running = ShapeRun(op, call, shapes, live).running(live) if alive else None
    else:
        log = (LiveLog if alive else FollowedLog)(execution.backend, records=False, left=MOST_IN_INFERENCE)
        run, kept = ShapeRun(op, call, shapes, log), ()
        running = run.running(log) if isinstance(log, LiveLog) else None
    return OpMemory(kept, tuple(run.views()), run.layouts(), running)


def _index(storages: list[TensorMemory], storage: TensorMemory) -> int | None:
    return next((i for i, x in enumerate(storages) if x is storage), None)


def _firsts(tensors: Sequence[ShapeTensor]) -> Iterator[int]:
    """The index of each tensor that is the first of its storage."""
    seen: set[int] = set()
    for i, x in enumerate(tensors):
        if id(x.storage) not in seen:
            seen.add(id(x.storage))
            yield i


def _unlike_axes(x: ShapeTensor) -> Shape | None:
    """The strides of a tensor that is not contiguous; None for one that is."""
    return None if x.is_contiguous() else x.laid


def _tensors(tree: Any) -> Iterator[ShapeTensor]:
    if isinstance(tree, ShapeTensor):
        yield tree
    elif isinstance(tree, tuple | list):
        for branch in tree:
            yield from _tensors(branch)
