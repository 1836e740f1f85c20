"""The waist of archcli: tensors on a tape, operations with a cost, and the rows that counting leaves behind.

A module's forward speaks only of `Tensor`, `Op` and child modules. Which tape the tensor sits on decides what the
forward means: `CountTape` (here) writes one exact `Row` per operation; the torch tapes (`archcli.runtime`) build and
run a real network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from archcli.arith import Number, Shape, label, prod, repetitions
from archcli.part import OpClass, Part
from archcli.state import State, StateKind

if TYPE_CHECKING:
    from archcli.modules.base import Module


class Experts(NamedTuple):
    """A row inside routed experts.

    `n_experts` copies of its weights are stored, each token passes through `top_k` of them.
    """

    n_experts: Number
    top_k: Number


class Op(ABC):
    """One operation of the closed vocabulary: its output shape, the weights it owns, what it costs, and how torch does it.

    Calling an op on tensors emits it on their tape. `name` becomes the last part of the row's path and of the weight's
    name.
    """

    __slots__ = ()
    name: str
    component: ClassVar[str] = ""
    """The heading `flops` counts it under, such as `attention_scores`; empty means that of the row's group."""
    zero_cost_reason: ClassVar[str] = ""
    """Why this op costs nothing; an op without parts and without a reason is an error."""
    needs_module: ClassVar[bool] = False
    """Whether torch's module for it must be there even without weights, as it does something else in training."""
    expected: ClassVar[bool] = False
    """Whether its cost depends on data, and the counted one is an expected value."""

    def __call__(self, *xs: Tensor, group: str = "") -> Any:
        """Emit this op on the tape of its first input, counted under `group` if one is given; returns a Tensor, or a tuple of them."""
        return xs[0].tape.emit(self, *xs, group=group)

    @abstractmethod
    def shape(self, *xs: Shape) -> Any:
        """The output's shape, or a tuple of shapes."""

    def weights(self, *xs: Shape) -> dict[str, Shape]:
        """Trainable tensors this op owns, by name."""
        return {}

    def buffers(self, *xs: Shape) -> dict[str, Shape]:
        """Tensors that are stored but not trained, and so not counted as parameters."""
        return {}

    def trained(self, grads: list[bool], *xs: Shape) -> bool:
        """Whether the output depends on anything trained, given which inputs do: on one of them, or on weights of this op."""
        return any(grads) or bool(self.weights(*xs))

    @abstractmethod
    def parts(self, *xs: Shape) -> tuple[Part, ...]:
        """What one execution costs."""

    def states(self, *xs: Shape) -> tuple[State, ...]:
        """What stays in the cache after this op."""
        return ()

    def is_one_kernel(self, *xs: Shape) -> bool:
        """Whether torch has one kernel for what this op does in several steps, which stores nothing in between."""
        return False

    def skips_masked(self, *xs: Shape) -> bool:
        """Whether that kernel executes `flops` of each part alone; any other run executes `unmasked_flops`."""
        return False

    def run(self, torch: Any, weights: dict[str, Any], *xs: Any) -> Any:
        """Do it with torch, which is handed in so that counting never imports it."""
        raise NotImplementedError(f"{type(self).__name__} has no run")

    def run_fused(self, torch: Any, weights: dict[str, Any], *xs: Any) -> Any:
        """The same by a kernel of torch that does several steps at once, where it has one."""
        return self.run(torch, weights, *xs)

    def in_training(self) -> Op:
        """The op as it is run in training; most are the same."""
        return self

    def leaf(self, nn: Any, *xs: Shape) -> Any:
        """The torch.nn module that owns the weights and does the work, or None where `run` on plain parameters does."""
        return None


class PassPart(NamedTuple):
    """A part as a pass runs it: which way it goes, and its name in the row, a gradient's behind that of its part."""

    stage: Literal["forward", "backward"]
    name: str
    part: Part


@dataclass(frozen=True, slots=True)
class Row:
    """One operation of the forward, as it was counted: everything every report is folded from.

    Costs are per occurrence; `times` repeats them. Weights that are not `trained` are frozen: they get no gradient.
    """

    path: str
    group: str
    op: Op
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    weights: dict[str, Shape]
    parts: tuple[Part, ...]
    states: tuple[State, ...]
    times: Number
    experts: Experts | None
    trained: bool = True

    def pieces(self, phase: str) -> Iterator[PassPart]:
        """The parts that run in a phase: training adds what is spent in training alone, and every part's backward."""
        train = phase == "train"
        for part in self.parts:
            if train or not part.training:
                yield PassPart("forward", part.name, part)
            if train:
                yield from (PassPart("backward", f"{part.name}/{back.name}", back) for back in part.backward)

    @property
    def unit_params(self) -> Number:
        """Parameters of one copy."""
        return sum((prod(shape) for shape in self.weights.values()), 0)

    @property
    def params(self) -> Number:
        """Parameters of all occurrences and all experts."""
        return self.unit_params * self.times * (self.experts.n_experts if self.experts else 1)

    @property
    def active_params(self) -> Number:
        """Parameters that one token passes through."""
        return self.unit_params * self.times * (self.experts.top_k if self.experts else 1)


class Tape(Protocol):
    """What a forward is read with. Implementations: `CountTape` here; the build and run tapes of `archcli.runtime`."""

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Perform one op; `group` is the heading it is counted under, empty for the module's own; its weights are `trained`, or frozen."""

    def weight(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Tensor:
        """A handle on the first weight of `op`, which is declared if it is not yet; whoever borrows it adds no parameters."""

    def call(self, module: Module, name: str, *args: Any, **options: Any) -> Any:
        """Run a child module's forward under `name`. Options: group, times, experts, index."""

    def inline(self, module: Module, group: str, *args: Any, **options: Any) -> Any:
        """Run a module's forward among the caller's own ops; `group` is the heading they are counted under."""

    def occurrences(self, n_layers: Number, period: int) -> Iterable[tuple[int, Number]]:
        """(index, times) of each layer to run: one per distinct layer when counting, every one when running."""


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A value on a tape: `Abstract` when counting, a torch.Tensor when running."""

    tape: Tape
    value: Any

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        return tuple(self.value.shape)


class Abstract(NamedTuple):
    """What counting knows of a tensor: its shape, and whether a gradient flows to it."""

    shape: Shape
    grad: bool = True


def tree_map(change: Callable[[Any], Any], kind: type, tree: Any) -> Any:
    """Replace every leaf of type `kind` in nested tuples, named tuples, lists and dicts."""
    if isinstance(tree, kind):
        return change(tree)
    if isinstance(tree, tuple):
        items = [tree_map(change, kind, item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, list):
        return [tree_map(change, kind, item) for item in tree]
    if isinstance(tree, dict):
        return {key: tree_map(change, kind, item) for key, item in tree.items()}
    return tree


class CountTape:
    """Writes a Row for each op.

    A child tape shares the list of rows and differs in path, repetition, experts and group.
    """

    __slots__ = ("experts", "group", "path", "rows", "start", "times")

    def __init__(
        self,
        rows: list[Row],
        path: str = "",
        times: Number = 1,
        experts: Experts | None = None,
        group: str = "",
    ) -> None:
        self.rows, self.path, self.times, self.experts, self.group = rows, path, times, experts, group
        self.start = len(rows)

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Write the op's row; returns abstract outputs."""
        shapes = [x.shape for x in xs]
        grads = [x.value.grad for x in xs]
        parts = tuple(_needed(part, grads, trained=trained) for part in op.parts(*shapes))
        if not parts and not op.zero_cost_reason:
            raise NotImplementedError(f"{type(op).__name__} states no cost and no reason for having none")
        row = self._row(op, shapes, parts, group, trained=trained)
        grad = op.trained(grads, *shapes) and (trained or any(grads))
        out = tuple(Tensor(self, Abstract(shape, grad)) for shape in row.outputs)
        return out if _is_many(op.shape(*shapes)) else out[0]

    def weight(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Tensor:
        """The op's first weight, from its row, or from a new row that costs nothing because only the borrower computes with it."""
        path, own = (
            _join(self.path, op.name),
            self.rows[self.start :],
        )  # layers of arrays share the path `layers.?`
        row = next((row for row in own if row.path == path), None) or self._row(
            op, [x.shape for x in xs], (), group, trained=trained
        )
        return Tensor(self, Abstract(next(iter(row.weights.values())), row.trained))

    def call(self, module: Module, name: str, *args: Any, **options: Any) -> Any:
        """Count the child's forward with the path, repetition, experts and group it is called with."""
        group = options.get("group") or module.group or self.group
        experts = options.get("experts") or self.experts
        child = CountTape(
            self.rows, _join(self.path, name), self.times * options.get("times", 1), experts, group
        )
        return _rebind(self, module.forward(*_rebind(child, args)))

    def inline(self, module: Module, group: str, *args: Any, **options: Any) -> Any:
        """Count the module's ops under this path and the given group."""
        child = CountTape(self.rows, self.path, self.times, self.experts, group or self.group)
        return _rebind(self, module.forward(*_rebind(child, args), **options))

    def occurrences(self, n_layers: Number, period: int) -> Iterator[tuple[int, Number]]:
        """Each layer of the pattern once, with how many of the N layers are like it."""
        yield from ((i, repetitions(n_layers, period, i)) for i in range(period))

    def _row(self, op: Op, shapes: list[Shape], parts: tuple[Part, ...], group: str, *, trained: bool) -> Row:
        out = op.shape(*shapes)
        row = Row(
            path=_join(self.path, op.name),
            group=group or self.group,
            op=op,
            inputs=tuple(shapes),
            outputs=out if _is_many(out) else (out,),
            weights=op.weights(*shapes),
            parts=parts,
            states=op.states(*shapes),
            times=self.times,
            experts=self.experts,
            trained=trained,
        )
        self.rows.append(row)
        return row


def _rebind(tape: Tape, tree: Any) -> Any:
    return tree_map(lambda x: Tensor(tape, x.value), Tensor, tree)


def _is_many(shape: Any) -> bool:
    return bool(shape) and isinstance(shape[0], tuple)


def _join(*names: str) -> str:
    return ".".join(name for name in names if name)


def _needed(part: Part, grads: list[bool], *, trained: bool) -> Part:
    """Drop the backward parts whose gradient nobody needs: of a raw input such as token ids, of a frozen weight."""
    kept = tuple(back for back in part.backward if _flows(back.wrt, grads, trained=trained))
    return part if len(kept) == len(part.backward) else replace(part, backward=kept)


def _flows(wrt: int | str | tuple[int, ...] | None, grads: list[bool], *, trained: bool) -> bool:
    """Whether a gradient goes there."""
    if isinstance(wrt, str):
        return trained
    if wrt is None:
        return trained or any(grads)
    return any(grads[i] for i in ((wrt,) if isinstance(wrt, int) else wrt))


__all__ = [
    "Abstract",
    "CountTape",
    "Experts",
    "Op",
    "OpClass",
    "Part",
    "PassPart",
    "Row",
    "State",
    "StateKind",
    "Tape",
    "Tensor",
    "label",
    "tree_map",
]
