"""The torch readings of a forward: BuildTape makes each node's leaves and children once, NodeTape runs them.

A tape is bound to one node and lives as long as its forward, so hooks fire on every leaf, a layer runs alone,
checkpointing and compiling work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import torch
from torch import nn

from archcli.errors import ArchError, Problem
from archcli.graph import Op, Tensor, tree_map
from archcli.runtime.model.leaves import Assignment, Beside, Leaf, leaf_of
from archcli.runtime.model.trees import rebuilder

if TYPE_CHECKING:
    from archcli.modules.base import Module
    from archcli.runtime.model.build import Node


Run = Callable[["Node", list[Any], Assignment | None], Any]
"""What a tape has torch do: the node, the values that go in, and in routed experts where each token goes, to what comes out."""


class Listening(NamedTuple):
    """Who listens to the operations of a node: what makes a `Run` that is heard of one that is not, and where the node stands."""

    wrap: Callable[[Op, str, Run], Run]
    path: str

    def around(self, op: Op, run: Run) -> Run:
        """The run of the op, heard under the op's path."""
        return self.wrap(op, f"{self.path}.{op.name}" if self.path else op.name, run)


def _alone(node: Node, op: Op) -> Run:
    """An op that owns nothing, by itself; one with a second form in that, where the node names it: `{"Attend": "run_fused"}`."""
    op = op.in_training() if node.training else op
    perform = getattr(op, node.forms.get(type(op).__name__, "run"))
    return lambda _, values, __: perform(torch, {}, *values)


def by_leaf(op: Op) -> Run:
    """The op by the leaf that owns its weights."""

    def run(node: Node, values: list[Any], routed: Assignment | None) -> Any:
        leaf: Any = node.part(op.name)
        return called(leaf, leaf, op, values, routed)

    return run


def called(
    leaf: nn.Module, call: Callable[..., Any], op: Op, values: list[Any], routed: Assignment | None
) -> Any:
    """What a call of the leaf gives: torch's own modules know their op; a bare leaf is told this call's, which may hold a pass's length."""
    if not isinstance(leaf, Leaf):
        return call(*values)
    return call(*values, op=op) if routed is None else call(*values, op=op, routed=routed)


def _weight(op: Op) -> Run:
    """The parameter of the leaf."""
    return lambda node, _, __: cast("Any", node.part(op.name)).weight


class ChildRun:
    """Runs a child node, a real nn.Module, on plain torch tensors; routed experts get the expert of each token, which is the last value."""

    __slots__ = ("arguments", "routes", "steps")

    def __init__(self, name: str, arguments: Callable[[list[Any]], Any], *, routes: bool) -> None:
        self.steps, self.arguments, self.routes = name.split("."), arguments, routes

    def __call__(self, node: Node, values: list[Any], _: Assignment | None) -> Any:
        """What the child makes of the values."""
        expert_of = values.pop() if self.routes else None
        return self._ask(self._child(node), self.arguments(values), expert_of)

    def _child(self, node: Any) -> Any:
        for step in self.steps:  # by its table: an attribute of a torch module is searched for in three
            node = node._modules[step]
        return node

    def _ask(self, child: nn.Module, args: Any, expert_of: torch.Tensor | None) -> Any:
        return child(*args) if expert_of is None else child(*args, expert_of=expert_of)


class NodeTape:
    """Runs ops with the node's own leaves, and child modules as the node's own children."""

    __slots__ = ("node", "routed")
    child_run: ClassVar[type[ChildRun]] = ChildRun

    def __init__(self, node: Node, routed: Assignment | None = None) -> None:
        self.node, self.routed = node, routed

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Run the op: by the leaf that owns its weights, by itself where it owns none; whoever listens hears of it."""
        run = _alone(self.node, op) if self.node.part(op.name) is None else self._by_leaf(op)
        listening = self.node.listening
        return self._do(run if listening is None else listening.around(op, run), [x.value for x in xs])

    def weight(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Tensor:
        """The parameter of the leaf."""
        weight: Tensor = self._do(_weight(op), [])
        return weight

    def call(self, module: Module, name: str, *args: Any, **options: Any) -> Any:
        """Run the child node."""
        inputs: list[Tensor] = []
        arguments = rebuilder(args, Tensor, inputs)
        if "index" in options:
            inputs.append(options["index"])
        return self._do(self.child_run(name, arguments, routes="index" in options), [x.value for x in inputs])

    def inline(self, module: Module, group: str, *args: Any, **options: Any) -> Any:
        """Run the module's ops on this very tape."""
        return module.forward(*args, **options)

    def occurrences(self, n_layers: int, period: int) -> Iterator[tuple[int, int]]:
        """Every layer, once."""
        return ((i, 1) for i in range(n_layers))

    def _by_leaf(self, op: Op) -> Run:
        return by_leaf(op)

    def _do(self, run: Run, values: list[Any]) -> Any:
        """What comes of the values, on this tape."""
        return tree_map(lambda value: Tensor(self, value), torch.Tensor, run(self.node, values, self.routed))


class MismatchError(ArchError):
    """torch does not do what an op promises: the row, what was promised, what came."""

    def __init__(self, path: str, what: str, ours: str, theirs: str) -> None:
        super().__init__(Problem(f"{what}: archcli says {ours}, torch says {theirs}", path=path))
        self.path, self.what, self.ours, self.theirs = path, what, ours, theirs


class BuildTape(NodeTape):
    """Makes what the node will run, a leaf for each op that owns weights and a child node for each module, by running it once on meta.

    Every op's real output is held against the shape the op promises: a row that is counted is the row that runs.
    """

    __slots__ = ("n_experts", "path")

    def __init__(self, node: Node, path: str, n_experts: int | None) -> None:
        super().__init__(node)
        self.path, self.n_experts = path, n_experts

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Register the op's leaf, run it, compare shapes."""
        shapes, path = [x.shape for x in xs], f"{self.path}.{op.name}".strip(".")
        try:
            self._register(op, shapes, trained=trained)
            out = super().emit(op, *xs)
        except (RuntimeError, ValueError, ArithmeticError) as problem:
            raise MismatchError(
                path, f"{type(op).__name__} runs", "yes", str(problem).splitlines()[0]
            ) from problem
        promised, real = op.shape(*shapes), tree_map(lambda x: x.shape, Tensor, out)
        if promised != real:
            raise MismatchError(path, f"shape of {type(op).__name__}", str(promised), str(real))
        return out

    def _do(self, run: Run, values: list[Any]) -> Any:
        if self.n_experts is not None and values:
            self.routed = Assignment(values[0].new_zeros(len(values[0]), dtype=torch.int64))
        return super()._do(run, values)

    def _register(self, op: Op, shapes: list[Any], *, trained: bool) -> None:
        """Put the op's leaf in its place: in the node, or below the leaf it stands beside (`q_proj.lora_A`)."""
        leaf = leaf_of(op, shapes, self.n_experts)
        if leaf is None:
            return
        *parents, own = op.name.split(".")
        place: nn.Module = self.node
        for step in parents:
            if step not in place._modules:
                place.add_module(step, Beside())
            place = place.get_submodule(step)
        place.add_module(own, leaf if trained else leaf.requires_grad_(False))

    def weight(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Tensor:
        """Register the leaf if nothing has called it yet."""
        if self.node.part(op.name) is None:
            self._register(op, [x.shape for x in xs], trained=trained)
        return super().weight(op, *xs)

    def call(self, module: Module, name: str, *args: Any, **options: Any) -> Any:
        """Make the child node, and what it holds, by running its forward."""
        experts = options.get("experts")
        *parents, own = name.split(".")
        place: Any = self.node
        for step in parents:
            if not hasattr(place, step):
                place.add_module(step, nn.ModuleList())
            place = getattr(place, step)
        child = type(self.node).child(self.node, module, None if experts is None else experts.n_experts)
        place.add_module(own, child)
        tape = type(self)(
            child, f"{self.path}.{name}".strip("."), self.n_experts if experts is None else experts.n_experts
        )
        out = module.forward(*tree_map(lambda x: Tensor(tape, x.value), Tensor, args))
        return tree_map(lambda x: Tensor(self, x.value), Tensor, out)
