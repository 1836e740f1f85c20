"""KernelTape: the tape that runs operations on tensors without values, and logs what they launch.

Folding: one run of a layer stands for all of its group, where they all launch the same kernels. What a
layer launches follows from the tensors that it is given. So the layers of a group are alike if what enters
each is like what leaves it, forward and backward, and if they share nothing else through which gradients
flow.

The layers of a pattern are run once where one period stands for all (`FoldedLayers`). Else they are run three
times, as where memory is counted: the first period, one for all in the middle, and the last.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeVar

from archcli.arith import Number
from archcli.graph import Op, Tensor, tree_map
from archcli.graph.count_tape import Abstract, CountTape, join, key_of
from archcli.graph.kept import FP32, INT64, Call, Execution
from archcli.modules import Model
from archcli.modules.spec.request import Request
from archcli.modules.spec.trace import run_on
from archcli.wings.serving.launches.dtypes import NAMED, DType
from archcli.wings.serving.launches.functions.routed import MODULES, TokenAssignment, run_stacked
from archcli.wings.serving.launches.functions.torch_like import TORCH
from archcli.wings.serving.launches.known_runs import run_once
from archcli.wings.serving.launches.log import (
    NOT_KNOWN,
    GradNode,
    LaunchOrigin,
    Log,
    unknown_kernels,
    without_grad,
)
from archcli.wings.serving.launches.memory.op_reader import OpReader
from archcli.wings.serving.launches.memory.tape import FilledTape, InPeriods, Placement
from archcli.wings.serving.launches.tensor import ShapeTensor

T = TypeVar("T", bound=CountTape)


class CacheTape(FilledTape):
    """A FilledTape that knows the number type of each tensor, and so of what is cached.

    `folded`: it traces the layers of one period alone.
    """

    __slots__ = ("execution", "folded", "read")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.execution, self.folded, self.read = Execution(), False, OpReader()

    def _child(self, cls: type[T], **changes: Any) -> T:
        child = super()._child(cls, **changes)
        if isinstance(child, CacheTape):
            child.execution, child.folded, child.read = self.execution, self.folded, self.read
        return child

    def occurrences(
        self, n_layers: Number, period: int, *, apart: bool = False
    ) -> Iterator[tuple[int, Number]]:
        """The layers of one period, or of three."""
        base = CountTape if self.folded else FilledTape
        yield from base.occurrences(self, n_layers, period, apart=apart)

    @property
    def gradless(self) -> type[CountTape]:
        """The same: no gradient flows anywhere."""
        return type(self)

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Run the op's shapes, and give each output the number type that its run has."""
        out = super().emit(op, *xs, group=group, trained=trained)
        places = [x.value.place or Placement(None, self.execution.width) for x in xs]
        widths = tuple([place.width for place in places]) or (self.execution.width,)
        layouts = tuple([place.layout for place in places])
        n_experts = None if self.experts is None else self.experts.n_experts
        call = Call(self.execution, (False,) * len(xs), widths, False, n_experts, layouts)
        out_layouts = iter(self.read(op, call, [x.value.shape for x in xs]).layouts)

        def placed(x: Tensor) -> Tensor:
            layout = next(out_layouts)
            place = Placement(None, layout.width, layout=layout)
            return Tensor(self, Abstract(x.value.shape, grad=False, place=place))

        return tree_map(placed, Tensor, out)


def filled_cache(model: Model, filling: Request, execution: Execution, dtype: DType, *, folded: bool) -> Any:
    """The cache after the pass that fills it, each tensor in the order of its axes.

    With `folded` that of the layers of one period of each pattern.
    """
    tape = CacheTape([])
    tape.execution, tape.folded = execution._replace(records=False), folded
    widths = {"ids": INT64, "features": execution.width}
    inputs = {
        name: Abstract(spec.shape, grad=False, place=Placement(None, widths[spec.kind]))
        for name, spec in model.inputs(filling).items()
    }
    _, cache = run_on(tape, model.adapted, filling, inputs, ())

    def without_values(x: Tensor) -> Tensor:
        shape = tuple([int(size) for size in x.value.shape])
        in_fp32 = x.value.place.width == FP32
        return Tensor(x.tape, ShapeTensor(shape, NAMED["float32"] if in_fp32 else dtype))

    return tree_map(without_values, Tensor, cache)


Edge = tuple[int, int]
"""A tensor by the step of autograd that made it, and which of its outputs it is."""
Facts = tuple[Any, ...]
"""All that a function of torch sees of a tensor."""


class UnlikeLayersError(Exception):
    """Layers of a group may differ in what they launch: one cannot stand for the others."""


class FoldedLayers:
    """The tensors and gradients that enter and leave layers, where one stands for several.

    trains: gradients flow back through the layers.

    Its methods raise UnlikeLayersError where one does not launch what the next one would.
    """

    def __init__(self, *, trains: bool = True) -> None:
        self.trains = trains
        self._ends: list[tuple[Edge, Edge]] = []
        self._gradients: dict[Edge, Facts] = {}

    def enter(self, context: Any) -> None:
        """A layer begins."""
        # gradients of what layers lend are summed over those that borrow it
        if self.trains and (context.lends or context.borrowed is not None):
            raise UnlikeLayersError
        tree_map(_require_no_gradient, Tensor, context)

    def leave(self, x: ShapeTensor, out: ShapeTensor) -> None:
        """A layer ends."""
        if _facts(x) != _facts(out):
            raise UnlikeLayersError
        if out.node is not None:
            self._ends.append((_edge(x), _edge(out)))

    def arrive(self, node: GradNode, gradients: Mapping[int, ShapeTensor]) -> None:
        """The gradients of the outputs of a step are there."""
        self._gradients.update({(id(node), output): _facts(x) for output, x in gradients.items()})

    def end(self) -> None:
        """The backward ends."""
        if any(self._gradients.get(x) != self._gradients.get(out) for x, out in self._ends):
            raise UnlikeLayersError


def _edge(x: ShapeTensor) -> Edge:
    return id(x.node), x.output


def _facts(x: ShapeTensor) -> Facts:
    return x.shape, x.dtype, x.strides, x.offset, x.storage.elements, x.requires_grad, x.repeats


def _require_no_gradient(x: Tensor) -> Tensor:
    if x.value.requires_grad:
        raise UnlikeLayersError
    return x


class Weights:
    """The weights of a model by path and name; `first` is the path of the first module of a shared key."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self.tensors: dict[str, ShapeTensor] = {}
        self.first: dict[str, str] = {}

    def tensor(self, path: str, shape: Any, *, trained: bool, whole: bool = False) -> ShapeTensor:
        """The weight at a path, made when it is first asked for; `whole` numbers are indices."""
        if path not in self.tensors:
            sizes = tuple(int(size) for size in shape)
            dtype = NAMED["int64"] if whole else self.dtype
            self.tensors[path] = ShapeTensor(sizes, dtype, requires_grad=trained)
        return self.tensors[path]


class KernelTape(InPeriods):
    """Runs each op on tensors without values; in `training` as a model in training runs it.

    With `folded` each layer of a pattern runs once; raises UnlikeLayersError where it may not stand for all.
    """

    __slots__ = ("folded", "home", "log", "routed", "run_as", "training", "weights")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.log, self.weights = Log(), Weights(TORCH.bfloat16)
        self.run_as, self.training = "run_fused", False
        self.folded: FoldedLayers | None = None
        # where its weights lie: the path of the first module, where several share them
        self.home = self.path
        self.routed: TokenAssignment | None = None

    def _child(self, cls: type[T], **changes: Any) -> T:
        child = super()._child(cls, **changes)
        if isinstance(child, KernelTape):
            child.log, child.weights = self.log, self.weights
            child.run_as, child.training, child.folded = self.run_as, self.training, self.folded
            child.home, child.routed = self.home, self.routed
        return child

    @property
    def gradless(self) -> type[CountTape]:
        """The same: nothing is recorded while such a child runs."""
        return type(self)

    def occurrences(
        self, n_layers: Number, period: int, *, apart: bool = False
    ) -> Iterator[tuple[int, Number]]:
        """The layers of one period, or of three."""
        base = InPeriods if self.folded is None else CountTape
        yield from base.occurrences(self, n_layers, period, apart=apart)

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Run the op, and log what it launches."""
        values = [x.value for x in xs]
        shapes = [x.shape for x in values]
        # the cost as it is: as if a gradient flowed to every input
        key = key_of(op, shapes)
        parts = self._answered(key, op, shapes, [True] * len(shapes), trained=True).parts
        self.log.origin, self.log.repeats = LaunchOrigin(join(self.path, op.name), self.times, parts, op), 1
        try:
            out = self._run(op, values, shapes, key, trained=trained)
        except NOT_KNOWN as problem:
            raise unknown_kernels(problem, self.log.origin) from problem
        return tree_map(lambda x: Tensor(self, x), ShapeTensor, out)

    def _run(
        self, op: Op, values: list[ShapeTensor], shapes: list[Any], key: Hashable | None, *, trained: bool
    ) -> Any:
        buffers = op.buffers(*shapes)
        named = {**op.weights(*shapes), **buffers}
        if not (named or op.needs_module):
            op = op.in_training() if self.training else op
            return self._once(key, values, {}, lambda: getattr(op, self.run_as)(TORCH, {}, *values))
        stacked = () if self.experts is None else (int(self.experts.n_experts),)
        tensors = {
            name: self.weights.tensor(
                f"{join(self.home, op.name)}.{name}",
                (*stacked, *shape),
                trained=trained and name not in buffers and op.trained([False] * len(shapes), *shapes),
                whole=name in op.whole_buffers,
            )
            for name, shape in named.items()
        }
        if self.experts is not None and self.routed is not None and named:
            return run_stacked(op, tensors, values, self.routed)
        if op.needs_module:
            return op.leaf(MODULES, *shapes)(tensors, *values, self.training)
        return self._once(key, values, tensors, lambda: op.run(TORCH, tensors, *values))

    def _once(
        self,
        key: Hashable | None,
        values: list[ShapeTensor],
        weights: dict[str, ShapeTensor],
        run: Callable[[], Any],
    ) -> Any:
        """What `run` returns; in inference without running it where an operation like it ran before."""
        if key is None or self.log.records or type(self.log) is not Log:
            return run()
        call = key, self.log.backend, self.run_as, self.training, *weights
        return run_once(self.log, call, [*values, *weights.values()], run)

    def weight(
        self, op: Op, *xs: Tensor, group: str = "", trained: bool = True, which: str = "weight"
    ) -> Tensor:
        """The op's weight, made if it is not yet."""
        shape = op.weights(*[x.value.shape for x in xs])[which]
        path = f"{join(self.home, op.name)}.{which}"
        return Tensor(self, self.weights.tensor(path, shape, trained=trained))

    def declaring(self) -> CountTape | None:
        """None: weights are made when they are used."""
        return None

    def unshared(self) -> Any:
        """A tape at the same path whose weights are this occurrence's own."""
        tape = self._child(type(self), stored=None)
        tape.home = self.path
        return tape

    def call(self, module: Any, name: str, *args: Any, **options: Any) -> Any:
        """Run a child's forward; of a layer that stands for others, check that it may."""
        if self.folded is None or "times" not in options:
            return self._called(module, name, *args, **options)
        x, context = args
        self.folded.enter(context)
        out, kept = self._called(module, name, *args, **options)
        self.folded.leave(x.value, out.value)
        return out, kept

    def _called(self, module: Any, name: str, *args: Any, **options: Any) -> Any:
        """Run a child's forward; without gradients where none flows through it."""
        key, home = options.get("shares"), join(self.home, name)
        if key is not None:
            if self.folded is not None and self.folded.trains:
                raise UnlikeLayersError  # gradients of shared weights are summed over all uses
            home = self.weights.first.setdefault(key, home)
        before = self.home, self.routed
        self.home, self.routed = home, _assignment(options)
        try:
            if options.get("no_grad"):
                with without_grad():
                    return super().call(module, name, *args, **options)
            return super().call(module, name, *args, **options)
        finally:
            self.home, self.routed = before


def _assignment(options: dict[str, Any]) -> TokenAssignment | None:
    """The expert of each token, of a child that is called with it."""
    if "index" not in options:
        return None
    experts = options["experts"]
    return TokenAssignment(options["index"].value, int(experts.n_experts), experts)
