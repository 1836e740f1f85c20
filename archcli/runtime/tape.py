"""The torch readings of a forward: BuildTape makes each node's leaves and children once, NodeTape runs them.

A tape is bound to one node and keeps no state of its own, so hooks fire on every leaf, a layer runs alone,
checkpointing and compiling work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from archcli.errors import ArchError, Problem
from archcli.graph import Op, Tensor, tree_map
from archcli.runtime.leaves import Beside, Leaf, leaf_of

if TYPE_CHECKING:
    from archcli.modules.base import Module
    from archcli.runtime.build import Node


class NodeTape:
    """Runs ops with the node's own leaves. Ops with a second form run it where the node names it.

    `{"Attend": "run_fused"}`.
    """

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Call the leaf that owns the op's weights, or the op itself where it owns none."""
        values = [x.value for x in xs]
        leaf = self.node.part(op.name)
        out = self._perform(op, values) if leaf is None else self._call_leaf(leaf, op, values)
        if isinstance(out, torch.Tensor):
            return Tensor(self, out)
        return tree_map(lambda value: Tensor(self, value), torch.Tensor, out)

    def _perform(self, op: Op, values: list[Any]) -> Any:
        op = op.in_training() if self.node.training else op
        return getattr(op, self.node.forms.get(type(op).__name__, "run"))(torch, {}, *values)

    def _call_leaf(self, leaf: nn.Module, op: Op, values: list[Any]) -> Any:
        """torch's own modules know their op; a bare leaf is told this call's, which may hold the length of this pass."""
        return leaf(*values, op=op) if isinstance(leaf, Leaf) else leaf(*values)

    def weight(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Tensor:
        """The parameter of the leaf."""
        leaf: Any = self.node.part(op.name)
        return Tensor(self, leaf.weight)

    def call(self, module: Module, name: str, *args: Any, **options: Any) -> Any:
        """Call the child node, a real nn.Module, with plain torch tensors; routed experts also get the index of their expert."""
        child: Any = self.node
        for step in name.split("."):  # by its table: an attribute of a torch module is searched for in three
            child = child._modules[step]
        extra = {"expert_of": options["index"].value} if "index" in options else {}
        out = child(*tree_map(lambda x: x.value, Tensor, args), **extra)
        return tree_map(lambda value: Tensor(self, value), torch.Tensor, out)

    def inline(self, module: Module, group: str, *args: Any, **options: Any) -> Any:
        """Run the module's ops on this very tape."""
        return module.forward(*args, **options)

    def occurrences(self, n_layers: int, period: int) -> Iterator[tuple[int, int]]:
        """Every layer, once."""
        return ((i, 1) for i in range(n_layers))


class ExpertTape(NodeTape):
    """Runs the stacked experts of one mixture: each leaf is told which expert every token goes to."""

    __slots__ = ("expert_of",)

    def __init__(self, node: Node, expert_of: torch.Tensor) -> None:
        super().__init__(node)
        self.expert_of = expert_of

    def _call_leaf(self, leaf: nn.Module, op: Op, values: list[Any]) -> Any:
        return leaf(*values, op=op, expert_of=self.expert_of) if isinstance(leaf, Leaf) else leaf(*values)


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
            raise MismatchError(path, f"{type(op).__name__} runs", "yes", str(problem).splitlines()[0]) from problem
        promised, real = op.shape(*shapes), tree_map(lambda x: x.shape, Tensor, out)
        if promised != real:
            raise MismatchError(path, f"shape of {type(op).__name__}", str(promised), str(real))
        return out

    def _call_leaf(self, leaf: nn.Module, op: Op, values: list[Any]) -> Any:
        if self.n_experts is None or not isinstance(leaf, Leaf):
            return super()._call_leaf(leaf, op, values)
        return leaf(*values, op=op, expert_of=values[0].new_empty(len(values[0]), dtype=torch.int64))

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
        tape = type(self)(child, f"{self.path}.{name}".strip("."), self.n_experts if experts is None else experts.n_experts)
        out = module.forward(*tree_map(lambda x: Tensor(tape, x.value), Tensor, args))
        return tree_map(lambda x: Tensor(self, x.value), Tensor, out)
