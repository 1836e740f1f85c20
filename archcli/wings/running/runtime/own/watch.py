"""Watch a module run: which module calls each torch operation, and what it costs.

Hooks of torch that are called for every module keep a stack; a dispatch mode sees each operation and books it
to the innermost module. A backward operation belongs to the call whose forward made its autograd node, known
by the node's sequence number.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from archcli.arith import Shape
from archcli.wings.running.runtime.memory.storages import is_of_wrappers, tensors_in
from archcli.wings.running.runtime.model.op_log import AutogradLog
from archcli.wings.running.runtime.own.formulas import ATTENTION, OpCost, cost_of, packet_of
from archcli.wings.running.runtime.own.values import KnownValues
from archcli.wings.serving.recorded.operations import Phase

SIZES_ALONE = {
    "size",
    "sym_size",
    "stride",
    "sym_stride",
    "numel",
    "sym_numel",
    "storage_offset",
    "sym_storage_offset",
    "dim",
    "is_contiguous",
    "sym_is_contiguous",
    "is_strides_like_format",
    "is_non_overlapping_and_dense",
    "layout",
    "device",
}
"""Operations that ask for a tensor's form: they are answered without any kernel."""
MORE_FRAMES = 3


OPERATIONS = {torch._ops.OpOverload, torch._ops.TorchBindOpOverload}
"""Kinds of operations on tensors; the second takes weights that are packed."""


class RanOp(NamedTuple):
    """One torch operation that ran: the stage, its name, its cost, and elements read and written."""

    stage: Phase
    name: str
    cost: OpCost
    read: int
    written: int


@dataclass(eq=False, slots=True)
class Visit:
    """One call of a module: its path, class, shapes in and out, and the operations that it called itself."""

    number: int
    path: str
    class_name: str
    inputs: tuple[Shape, ...] = ()
    outputs: tuple[Shape, ...] = ()
    ran: list[RanOp] = field(default_factory=list)


class ModuleWatch(TorchDispatchMode):
    """Books operations to the calls of modules.

    `visits` are in the order of their calls, the first that of the module itself; `uncounted` counts
    operations that may contract tensors and have no formula, by name and path. `fault` is the call that
    returned nothing last: where the module raises, the innermost that did not end.
    """

    supports_higher_order_operators = True

    def __init__(self, module: nn.Module, values: KnownValues) -> None:
        super().__init__()
        self._paths = {id(child): path for path, child in module.named_modules(remove_duplicate=True)}
        self.visits = [Visit(0, "", type(module).__name__)]
        self.uncounted: Counter[tuple[str, str]] = Counter()
        self._values = values
        self._stack = [self.visits[0]]
        self._log = AutogradLog()
        self._log.begin("0")
        self._last: dict[str, Visit] = {"": self.visits[0]}
        self.fault: Visit | None = None

    def enter_call(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """A module's forward begins."""
        path = self._paths.get(id(module))
        if path is None or (path == "" and len(self._stack) == 1 and not self.visits[0].inputs):
            # modules made on the way belong to what calls them; the first visit is there already
            visit = self._stack[-1]
            visit.inputs = visit.inputs or (_shapes((args, kwargs)) if path == "" else ())
        elif torch._C._current_autograd_node() is not None and path in self._last:
            visit = self._last[path]  # run again in the backward
        else:
            visit = Visit(len(self.visits), path, type(module).__name__, _shapes((args, kwargs)))
            self.visits.append(visit)
        self._last[visit.path] = visit
        self.fault = None
        self._stack.append(visit)
        self._log.begin(str(visit.number))

    def leave_call(self, _module: nn.Module, _args: Any, out: Any) -> None:
        """A module's forward ends, also by an exception."""
        visit = self._stack.pop()
        # where a forward raises, torch calls its hooks with no output, the innermost first
        if out is None and self.fault is None:
            self.fault = visit
        visit.outputs = visit.outputs or _shapes(out)
        self._log.begin(str(self._stack[-1].number))

    def place(self) -> tuple[Visit, Phase]:
        """The call and the stage that torch is in."""
        node = torch._C._current_autograd_node()
        if node is None:
            return self._stack[-1], "forward"
        if len(self._stack) > 1:
            return self._stack[-1], "backward"
        return self.visits[int(self._log.owner(node._sequence_nr()) or 0)], "backward"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a torch operation and book it."""
        kwargs = kwargs or {}
        if is_of_wrappers(types):
            return NotImplemented  # it runs operations on what it wraps, which come here
        if type(func) not in OPERATIONS and packet_of(func) not in flop_registry:
            return self._higher_order(func, args, kwargs)
        name = packet_of(func).__name__.rstrip("_")
        if name in SIZES_ALONE:
            return NotImplemented if func.namespace == "aten" and name != "device" else func(*args, **kwargs)
        if not _has_formula(name, func):
            with self:  # composite operations arrive whole in inference mode
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        out = self.execute(func, args, kwargs)
        self.book(func, name, args, kwargs, out)
        return out

    def execute(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation."""
        return self._values.run(func, args, kwargs)

    def book(self, func: Any, name: str, args: Any, kwargs: Any, out: Any) -> OpCost | None:
        """Book an operation that ran to the call that it belongs to; returns its cost, None if unknown."""
        visit, stage = self.place()
        cost = cost_of(func, args, kwargs, out, self._values.allowed)
        if cost is None:
            self.uncounted[name, visit.path] += 1
            return None
        if type(func) in OPERATIONS and func.is_view:
            return cost
        read = sum(x.numel() for x in tensors_in((args, kwargs)))
        written = sum(x.numel() for x in tensors_in(out))
        visit.ran.append(RanOp(stage, name, cost, read, written))
        return cost

    def _higher_order(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run what is no operation of tensors; what functions given to it call is not seen, nor counted."""
        # the other kind marks a place for profilers
        if isinstance(func, torch._ops.HigherOrderOperator):
            self.uncounted[str(func), self.place()[0].path] += 1
        return func(*args, **kwargs)


def _has_formula(name: str, func: Any) -> bool:
    return name in ATTENTION or packet_of(func) in flop_registry


def _shapes(tree: Any) -> tuple[Shape, ...]:
    return tuple(tuple(x.shape) for x in tensors_in(tree))


@contextmanager
def watching(module: nn.Module, watch: ModuleWatch) -> Iterator[ModuleWatch]:
    """Let every call of a module be told to the watch within the block."""
    handles = []
    deepest = sys.getrecursionlimit()
    sys.setrecursionlimit(MORE_FRAMES * deepest)  # hooks stand between the calls of nested modules
    for child in module.modules():
        handles += [
            child.register_forward_pre_hook(watch.enter_call, with_kwargs=True, prepend=True),
            child.register_forward_hook(watch.leave_call, always_call=True),
        ]
    try:
        with watch:
            yield watch
    finally:
        for handle in handles:
            handle.remove()
        sys.setrecursionlimit(deepest)
