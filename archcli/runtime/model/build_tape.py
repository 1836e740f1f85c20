"""BuildTape: creates a node's leaves and children by running its forward once on the meta device."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from archcli.arith import rounded_shape
from archcli.errors import ArchError, Problem
from archcli.graph import Op, Tensor, tree_map
from archcli.modules import Module
from archcli.runtime.model.leaves import AdapterHolder, Assignment, leaf_of
from archcli.runtime.model.node import ModuleNode, NodeTape


class MismatchError(ArchError):
    """torch's output shape differs from the op's: the row, the expected shape, the actual one."""

    def __init__(self, path: str, what: str, ours: str, theirs: str) -> None:
        super().__init__(Problem(f"{what}: archcli says {ours}, torch says {theirs}", path=path))
        self.path, self.what, self.ours, self.theirs = path, what, ours, theirs


class BuildTape(NodeTape):
    """Makes a leaf for each op that owns weights, and a child node for each module.

    The real output of an op has the shape that the op promises: a row that is counted is the row that runs.
    """

    __slots__ = ("first", "is_own", "n_experts", "path")

    def __init__(
        self,
        node: ModuleNode,
        path: str,
        n_experts: int | None,
        first: dict[str, ModuleNode] | None = None,
        *,
        is_own: bool = False,
    ) -> None:
        super().__init__(node)
        self.path, self.n_experts, self.is_own = path, n_experts, is_own
        self.first = {} if first is None else first  # by key, the node whose weights later ones share

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Register the op's leaf, run it, compare shapes."""
        shapes, path = [x.shape for x in xs], self._below(op.name)
        try:
            self._register(op, shapes, trained=trained)
            out = super().emit(op, *xs)
        except (RuntimeError, ValueError, ArithmeticError) as problem:
            reason = str(problem).splitlines()[0]
            raise MismatchError(path, f"{type(op).__name__} runs", "yes", reason) from problem
        promised, real = rounded_shape(op.shape(*shapes)), tree_map(lambda x: x.shape, Tensor, out)
        on_data = op.expected and not xs[0].value.is_meta  # its size depends on values
        if promised != real and not on_data:
            raise MismatchError(path, f"shape of {type(op).__name__}", str(promised), str(real))
        return out

    def weight(
        self, op: Op, *xs: Tensor, group: str = "", trained: bool = True, which: str = "weight"
    ) -> Tensor:
        """Register the leaf if nothing has called it yet."""
        if self.node.part(op.name) is None:
            self._register(op, [x.shape for x in xs], trained=trained)
        return super().weight(op, *xs, which=which)

    def declaring(self) -> NodeTape | None:
        """The same tape: it makes the leaves of what it runs."""
        return self

    def own(self) -> BuildTape:
        """A tape that makes leaves in this node, though the others are of the node that lends them."""
        return BuildTape(self.node, self.path, self.n_experts, self.first, is_own=True)

    def call(self, module: Module, name: str, *args: Any, **options: Any) -> Any:
        """Build the child node and everything in it by running its forward."""
        experts = options.get("experts")
        n_experts = self.n_experts if experts is None else experts.n_experts
        *parents, last = name.split(".")
        place: Any = self.node
        for step in parents:
            if not hasattr(place, step):
                place.add_module(step, nn.ModuleList())
            place = getattr(place, step)
        key = options.get("shares")
        child = ModuleNode(
            module, self.node.form, None if experts is None else n_experts, self._lender(name, key)
        )
        if key is not None:
            self.first.setdefault(key, child)
        place.add_module(last, child)
        tape = BuildTape(child, self._below(name), n_experts, self.first)
        out = module.forward(*tree_map(lambda x: Tensor(tape, x.value), Tensor, args))
        return tree_map(lambda x: Tensor(self, x.value), Tensor, out)

    def _lender(self, name: str, key: str | None) -> ModuleNode | None:
        """The node whose weights a child uses: the first of its key, or that of its parent's lender."""
        if key is not None and key in self.first:
            return self.first[key]
        above = self.node.lender
        return None if above is None else above.child(name)

    def _run(self, op: Op, values: list[Any]) -> Any:
        if self.n_experts is not None and values:
            self.routed = Assignment(values[0].new_zeros(len(values[0]), dtype=torch.int64))
        return super()._run(op, values)

    def _below(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def _register(self, op: Op, shapes: list[Any], *, trained: bool) -> None:
        """Register the op's leaf in the node, or below the leaf that it adapts (`q_proj.lora_A`)."""
        lent = self.node.lender is not None and not self.is_own
        leaf = None if lent else leaf_of(op, shapes, self.n_experts)
        if leaf is None:
            return
        *parents, last = op.name.split(".")
        place: nn.Module = self.node
        for step in parents:
            if step not in place._modules:
                place.add_module(step, AdapterHolder())
            place = place.get_submodule(step)
        place.add_module(last, leaf if trained else leaf.requires_grad_(False))
