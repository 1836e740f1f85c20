"""Nodes: a module of the architecture as an nn.Module, whose forward reads the spec on a NodeTape.

The tape is bound to its node and lives as long as one forward. Children and leaves are real modules and are
called, so that hooks fire, a layer runs alone, checkpointing and compiling work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from archcli.graph import Op, Tensor, tree_map
from archcli.modules import Module
from archcli.modules.adapters.adapted import unadapted
from archcli.wings.running.runtime.model.leaves import AdapterHolder, Assignment, Leaf

FUSED, EAGER = "run_fused", "run"
"""The method that runs an operation without weights: by a fused kernel of torch, or step by step."""

OpHook = Callable[[Op, Sequence[Any], Assignment | None], AbstractContextManager[Any]]
"""Instrumentation: the context to enter around an operation, given its inputs and any routing to experts."""

OutputHook = Callable[[Op, Any], None]
"""Instrumentation: what is called with an operation and the tensor or tensors that it returned."""


class NodeTape:
    """Runs operations by the node's leaves, and child modules by the node's children."""

    __slots__ = ("node", "routed")

    def __init__(self, node: ModuleNode, routed: Assignment | None = None) -> None:
        self.node, self.routed = node, routed

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Run the op: by the leaf that owns its weights, by itself where it owns none."""
        values, hook = [x.value for x in xs], self.node.op_hook
        if hook is None:
            out = self._run(op, values)
        else:
            with hook(op, values, self.routed):
                out = self._run(op, values)
                if self.node.output_hook is not None:
                    self.node.output_hook(op, out)
        return Tensor(self, out) if isinstance(out, torch.Tensor) else tuple([Tensor(self, x) for x in out])

    def _run(self, op: Op, values: list[Any]) -> Any:
        node = self.node
        leaf = node.part(op.name)
        if leaf is None:
            # attention drops scores in training alone, and is no nn.Module that train() could reach
            op = op.in_training() if node.training else op
            op = op if node.peers is None else op.among(node.peers)
            return getattr(op, node.form)(torch, {}, *values)
        if not isinstance(leaf, Leaf):
            return leaf(*values)
        # a bare leaf is given this call's op, which may hold the length of the pass
        return leaf(*values, op=op) if self.routed is None else leaf(*values, op=op, routed=self.routed)

    def weight(
        self, op: Op, *xs: Tensor, group: str = "", trained: bool = True, which: str = "weight"
    ) -> Tensor:
        """The weight parameter of the op's leaf."""
        leaf: Any = self.node.part(op.name)
        return Tensor(self, getattr(leaf, which))

    def declaring(self) -> NodeTape | None:
        """None: the weights exist."""
        return None

    def unshared(self) -> NodeTape:
        """The same tape: leaves of an occurrence's own are found first."""
        return self

    def call(self, module: Module, name: str, *args: Any, **options: Any) -> Any:
        """Run the child node; routed experts are given the expert of each token."""
        child = self.node.child(name)
        # sizes that torch.jit traces are tensors, too
        args = tree_map(int, torch.Tensor, args) if torch._C._get_tracing_state() else args
        values = [x.value if isinstance(x, Tensor) else tree_map(_value, Tensor, x) for x in args]
        routed = {"expert_of": options["index"].value} if "index" in options else {}
        # autograd itself leaves out what nothing reads
        with torch.no_grad() if options.get("no_grad") is True else nullcontext():
            out = child(*values, **routed)
        return Tensor(self, out) if isinstance(out, torch.Tensor) else _on(self, out)

    def inline(self, module: Module, group: str, *args: Any, no_grad: Any = None, **options: Any) -> Any:
        """Run the module's ops on this tape itself; autograd leaves out what nothing reads."""
        return module.forward(*args, **options)

    def occurrences(self, n_layers: int, period: int, *, apart: bool = False) -> Iterator[tuple[int, int]]:
        """Every layer, once."""
        return ((i, 1) for i in range(n_layers))


class ModuleNode(nn.Module):
    """A module of the architecture: its leaves and children are torch modules, its forward is the spec's.

    One that uses the weights of another has no leaves but its own: it runs those of its `lender`.
    """

    op_hook: OpHook | None = None
    """The instrumentation of its operations; the profiler sets it while it listens."""

    output_hook: OutputHook | None = None
    """Called with an operation and its outputs, within its context; only where `op_hook` is set, too."""

    peers: Any = None
    """The ranks that its operations exchange tensors with; without them one process stands for all."""

    spec: Any

    def __init__(
        self, spec: Module, form: str, n_experts: int | None = None, lender: ModuleNode | None = None
    ) -> None:
        super().__init__()
        self._lenders = () if lender is None else (lender,)  # a tuple, as this is no child
        # with an adapter `runs` is the wrapped module; `spec` is always the one that the file states
        self.runs, self.spec = spec, unadapted(spec)
        self.form, self.n_experts = form, n_experts

    def part(self, name: str) -> nn.Module | None:
        """The leaf or child of a name, or None; `leaf.adapter` names a leaf's adapter."""
        part = self._modules.get(name)
        if part is None and "." in name:
            holder, _, rest = name.partition(".")
            above = self._modules.get(holder)
            part = None if above is None else above._modules.get(rest)
        # the op above an adapter has no weights here and runs by itself
        part = None if isinstance(part, AdapterHolder) else part
        return self._lenders[0].part(name) if part is None and self._lenders else part

    @property
    def lender(self) -> ModuleNode | None:
        """The node whose weights this one uses; None for a node with weights of its own."""
        return self._lenders[0] if self._lenders else None

    def child(self, name: str) -> Any:
        """The node at a path below this one."""
        module: Any = self
        for step in name.split("."):
            module = module._modules[step]  # nn.Module.__getattr__ would search three tables
        return module

    def forward(self, *args: Any, expert_of: torch.Tensor | None = None, **options: Any) -> Any:
        """Run the spec's forward on this node's leaves and children; tensors in, tensors out."""
        tape = NodeTape(self, None if expert_of is None else Assignment(expert_of))
        inputs = [Tensor(tape, x) if isinstance(x, torch.Tensor) else _on(tape, x) for x in args]
        out = self.runs.forward(*inputs, **{key: _on(tape, x) for key, x in options.items()})
        return out.value if isinstance(out, Tensor) else tree_map(_value, Tensor, out)

    def _get_name(self) -> str:
        return type(self.spec).__name__


def _on(tape: NodeTape, tree: Any) -> Any:
    """The tree with its torch tensors wrapped as values on the tape."""
    return tree_map(lambda x: Tensor(tape, x), torch.Tensor, tree)


def _value(x: Tensor) -> Any:
    return x.value
