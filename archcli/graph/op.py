"""Base classes of the operations and tensors that a forward is written in, and of tapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import NoneType
from typing import Any, ClassVar, NamedTuple, Protocol

from archcli.arith import Number, Shape
from archcli.graph.kept import Call, Kept
from archcli.graph.part import NO_WORKSPACE, READ_OFF_RUN, Part, State, Workspace


class MaskTrait(NamedTuple):
    """The pattern of keys that a query sees; `window` is its window, chunk or stride, None without one."""

    kind: str
    window: Number | None = None


class Traits(NamedTuple):
    """Properties of an operation besides its shapes, for listings and drawings; None where it has none.

    mask: which keys a query sees.
    activation: the name of its function.
    norm: the kind of norm.
    rotary_share: how much of the last axis of its input is rotated, from 0 to 1.
    router_scores: what makes scores of a router's logits.
    router_groups: how many groups the experts are in, where a token may choose from some of them alone.
    marks: what else it does, in the field's words, with its settings: `ALiBi`, `softcap 50`.
    scale: what products of queries and keys are multiplied by.
    """

    mask: MaskTrait | None = None
    activation: str | None = None
    norm: str | None = None
    rotary_share: Number | None = None
    router_scores: str | None = None
    router_groups: Number | None = None
    marks: tuple[str, ...] = ()
    scale: float | None = None


NO_TRAITS = Traits()


class Op:
    """An operation of the closed vocabulary: its output shape, weights, cost, and run in torch.

    Calling an op on tensors emits it on their tape. `name` becomes the last part of the row's path and of
    the weight's name.
    """

    __slots__ = ()
    name: str
    component: ClassVar[str] = ""
    """The component `flops` counts it under, such as `attention_scores`; empty means that of the group."""
    zero_cost_reason: ClassVar[str] = ""
    """Why this op costs nothing; an op without parts and without a reason is an error."""
    needs_module: ClassVar[bool] = False
    """Whether it needs a torch module, with weights or without, as it behaves differently in training."""
    grouped: ClassVar[bool] = False
    """Whether it is a product that routed experts run as one, each on the tokens sent to it."""
    convolves: ClassVar[bool] = False
    """Whether it runs torch's convolution, which torch.jit cannot trace on the meta device."""
    has_unread: ClassVar[bool] = False
    """Whether a run without a cache also computes a state that nothing reads: that of the last token."""
    is_view: ClassVar[bool] = False
    """Whether its outputs are the first input's storage, and their gradients the input's."""
    is_weight: ClassVar[bool] = False
    """Whether its output is a weight as it is."""
    passes_gradient: ClassVar[bool] = False
    """Whether the gradient of its output is that of its inputs, so that its backward makes none."""
    sums_bias: ClassVar[bool] = False
    """Whether the gradient of its bias is summed up after its backward has released what it kept."""
    follows_run: ClassVar[bool] = False
    """Whether the bytes alive while it runs are read off its `run`, where they are torch's to the byte."""
    collective: ClassVar[str] = ""
    """The collective by which the ranks of a plan run it forward, by torch's name; empty where none is."""
    collective_back: ClassVar[str] = ""
    """The collective that runs backward."""
    is_constant: ClassVar[bool] = False
    """Whether its output goes by its settings alone, not by the values of its inputs."""
    drawn: ClassVar[str] = ""
    """How a drawing shows it, by the names of `archcli.wings.drawing.anatomy.roles`; empty for what its
    weights and inputs tell."""
    slots: ClassVar[tuple[str, ...]] = ()
    """What a drawing calls its inputs, such as q, k, v; empty for the names of what it reads."""
    sign: ClassVar[str] = ""
    """What a drawing writes on it, such as + or norm; empty for its name."""
    whole_buffers: ClassVar[frozenset[str]] = frozenset()
    """Its buffers of whole numbers, such as indices, by name."""
    dtype_inputs: ClassVar[frozenset[int]] = frozenset()
    """The inputs of which it reads the dtype alone."""
    expected: ClassVar[str] = ""
    """Where its cost depends on data, and the counted one is an expected value: a sentence that says so."""

    def __call__(self, *xs: Tensor, group: str = "") -> Any:
        """Emit this op on the tape of its first input; returns a Tensor, or a tuple of them.

        It is counted under `group`, if that is given.
        """
        return xs[0].tape.emit(self, *xs, group=group)

    def shape(self, *xs: Shape) -> Any:
        """The output's shape, or a tuple of shapes; by default the first input's."""
        return xs[0]

    def weights(self, *xs: Shape) -> dict[str, Shape]:
        """Trainable tensors this op owns, by name."""
        return {}

    def buffers(self, *xs: Shape) -> dict[str, Shape]:
        """Tensors that are stored but not trained, and so not counted as parameters."""
        return {}

    def trained(self, grads: list[bool], *xs: Shape) -> bool:
        """Whether the output depends on trained weights: the op's, or those behind one of its inputs."""
        return any(grads) or bool(self.weights(*xs))

    def parts(self, *xs: Shape) -> tuple[Part, ...]:
        """The cost of one execution, by part; by default none, for a `zero_cost_reason`."""
        return ()

    def states(self, *xs: Shape) -> tuple[State, ...]:
        """The states that this op leaves in the cache."""
        return ()

    def traits(self, *xs: Shape) -> Traits:
        """Its mask, activation, norm, rotated share, router's scores and marks, for `show` and drawings."""
        return NO_TRAITS

    def seen(self) -> tuple[tuple[bool, ...], ...]:
        """Which keys each of a few queries sees, for a drawing; empty for what has no mask."""
        return ()

    def kept(self, call: Call, *xs: Shape) -> tuple[Kept, ...] | None:
        """The tensors that its backward keeps; None to read them off `run`, as all of archcli's do.

        An operation states it that calls functions of torch unknown to `archcli.wings.serving.launches`.
        """
        return None

    def workspace(self, width: int, *xs: Shape) -> Workspace:
        """Memory of `run` besides inputs and outputs, elements being `width` bytes wide."""
        return NO_WORKSPACE

    def space(self, call: Call, *xs: Shape) -> Workspace:
        """Memory of this run besides inputs and outputs."""
        return READ_OFF_RUN if self.follows_run else self.workspace(call.execution.width, *xs)

    @property
    def lacks_kernel(self) -> bool:
        """Whether torch runs it step by step, where engines have one kernel."""
        return False

    def needs_flex(self, *xs: Shape) -> bool:
        """Whether FlexAttention runs it in one kernel, and torch's other kernels do not."""
        return False

    def skips_masked(self, *xs: Shape) -> bool:
        """Whether `run_fused` skips masked scores: it executes `flops` of the parts, not `unmasked_flops`."""
        return False

    def run(self, torch: Any, weights: dict[str, Any], *xs: Any) -> Any:
        """Compute the output with torch, a parameter so that counting never imports it."""
        raise NotImplementedError(f"{type(self).__name__} has no run")

    def run_fused(self, torch: Any, weights: dict[str, Any], *xs: Any) -> Any:
        """Compute the output with torch's fused kernel, where there is one."""
        return self.run(torch, weights, *xs)

    def run_served(self, torch: Any, weights: dict[str, Any], *xs: Any) -> Any:
        """The kernels of an inference engine in its place, which the wing `serving` alone can run."""
        return self.run_fused(torch, weights, *xs)

    def run_flex(self, torch: Any, weights: dict[str, Any], *xs: Any) -> Any:
        """The kernels of a trainer in its place, which the wing `serving` alone can run."""
        return self.run_fused(torch, weights, *xs)

    def in_training(self) -> Op:
        """The op to run in training; for most ops the op itself."""
        return self

    @property
    def exchanges(self) -> bool:
        """Whether the ranks of a plan exchange tensors by it."""
        return bool(self.collective or self.collective_back)

    def sent(self, *xs: Shape) -> Number:
        """Elements that a rank of a plan sends forward, over a ring."""
        return 0

    def sent_back(self, *xs: Shape) -> Number:
        """Elements that a rank of a plan sends backward, for the gradient."""
        return 0

    def among(self, peers: Any) -> Op:
        """The op to run among the ranks of a plan; for all that exchange nothing the op itself."""
        return self

    def leaf(self, nn: Any, *xs: Shape) -> Any:
        """The torch.nn module equivalent to this op; None to call `run` on bare parameters."""
        return None

    def initial(self, weight: str) -> float | None:
        """The initial value of all elements of a bare weight; None for small random numbers."""
        return None if weight == "weight" else 0.0


class Tape(Protocol):
    """Executes a forward op by op: `CountTape` counts; the tapes of the wing `running` build and run."""

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Perform an op with trained or frozen weights, counted under `group` or the module's group."""

    def weight(
        self, op: Op, *xs: Tensor, group: str = "", trained: bool = True, which: str = "weight"
    ) -> Tensor:
        """The weight of `op`, or its bias by `which`, declared if it is not yet.

        Borrowing it adds no parameters.
        """

    def declaring(self) -> Tape | None:
        """A tape that declares the weights of ops and counts nothing else; None where weights exist."""

    def unshared(self) -> Tape:
        """A tape for weights of this occurrence alone, within a module whose weights are shared."""

    def call(self, module: Any, name: str, *args: Any, **options: Any) -> Any:
        """Run a child module's forward under `name`.

        Options: group, times, experts, index, no_grad for a child through which no gradient flows ("unread"
        where that is because nothing reads its output), and shares: all calls with the same key use the
        weights of the first.
        """

    def inline(self, module: Any, group: str, *args: Any, **options: Any) -> Any:
        """Run a module's forward among the caller's ops, counted under `group`; `no_grad` as in `call`."""

    def occurrences(
        self, n_layers: Number, period: int, *, apart: bool = False
    ) -> Iterable[tuple[int, Number]]:
        """(index, times) of the layers to run: distinct layers when counting, all of them when running.

        With `apart` the first of every distinct layer comes alone, before the others like it.
        """


@dataclass(slots=True, eq=False)
class Tensor:
    """A value on a tape: `Abstract` when counting, a torch.Tensor when running."""

    tape: Tape
    value: Any

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        return tuple(self.value.shape)


PLAIN = frozenset({NoneType, bool, int, float, str})
"""Types of most items that `tree_map` leaves alone, told without a call for each item."""


def tree_map(change: Callable[[Any], Any], kind: type, tree: Any) -> Any:
    """Replace every leaf of type `kind` in nested tuples, named tuples, lists and dicts."""
    if isinstance(tree, kind):
        return change(tree)
    if isinstance(tree, tuple):
        items: list[Any] = [item if type(item) in PLAIN else tree_map(change, kind, item) for item in tree]
        # a named tuple takes its fields as arguments, a tuple takes one iterable
        return tuple(items) if type(tree) is tuple else type(tree)(*items)
    if isinstance(tree, list):
        return [tree_map(change, kind, item) for item in tree]
    if isinstance(tree, dict):
        return {key: tree_map(change, kind, item) for key, item in tree.items()}
    return tree
