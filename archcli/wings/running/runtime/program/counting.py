"""FLOPs of one step of a program, counted at the dispatcher by the module that runs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode, _pop_mode, _push_mode
from torch.utils._pytree import tree_leaves

from archcli.graph import OpClass
from archcli.wings.running.recording.program import OUTSIDE, CountedStep
from archcli.wings.running.recording.walk import operation
from archcli.wings.running.runtime.dtypes import dtype_name
from archcli.wings.running.runtime.own.formulas import OpCost, cost_of
from archcli.wings.running.runtime.profile.census import Counting, is_view
from archcli.wings.running.runtime.program.modules import ModuleNames, ModuleRanges
from archcli.wings.serving.recorded.classes import class_by_name

BATCHED = 2
"""Axes of the tokens of a batch."""


class StepCounting(Counting):
    """Counts the FLOPs of one step, within the modules that run it."""

    supports_higher_order_operators = True

    def __init__(self, modules: ModuleRanges) -> None:
        super().__init__(modules.log)
        self.modules = modules
        self.matmul, self.other_flops = Counter[tuple[str, str, str]](), 0
        self.by_dtype, self.uncounted = Counter[str](), Counter[str]()
        self.tokens: tuple[int, int] | None = None

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let torch compile while it counts: flex_attention raises where that is not allowed."""
        return True

    def begin(self) -> None:
        """Count from here on, below the program's own modes, which end when they will."""
        self.modules.start()
        with _modes_put_aside():
            _push_mode(self)

    def end(self) -> None:
        """Count no longer."""
        with _modes_put_aside(self):
            _pop_mode()
        self.modules.end()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if type(func) is not torch._ops.OpOverload:
            return self._higher_order(func, args, kwargs)
        if _is_wrapper(func):  # under inference_mode it comes here whole
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        out = func(*args, **kwargs)
        if not is_view(func):
            try:
                self._count(func, args, kwargs, out)
            except Exception:  # noqa: BLE001 - an operation that cannot be counted is named, and has run
                self.uncounted[operation(func._schema.name)] += 1
        return out

    def _count(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        name = operation(func._schema.name)
        if name == "embedding" and self.tokens is None and args[1].ndim == BATCHED:
            self.tokens = (args[1].shape[0], args[1].shape[1])
        self._keep(name, cost_as_executed(func, args, kwargs, out), args)

    def _higher_order(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator that takes functions, such as flex_attention; their calls are not seen."""
        out = func(*args, **kwargs)
        if isinstance(func, torch._ops.HigherOrderOperator):  # the other kind marks a place for profilers
            self._keep(str(func), cost_as_executed(func, args, kwargs, out), args)
        return out

    def _keep(self, name: str, cost: OpCost | None, args: Any) -> None:
        if cost is None:
            self.uncounted[name] += 1
        elif cost.op_class is OpClass.CONTRACTION:
            path, phase = self.log.place()
            self.matmul[path, phase, class_by_name(name)] += cost.executed
            self.by_dtype[product_dtype(args)] += cost.executed
        else:
            self.other_flops += cost.executed

    @property
    def step(self) -> CountedStep:
        """What was counted."""
        return CountedStep(
            sum(self.matmul.values()),
            self.other_flops,
            dict(self.matmul),
            dict(self.by_dtype),
            dict(self.uncounted),
        )


@contextmanager
def _modes_put_aside(lowest: StepCounting | None = None) -> Iterator[None]:
    """Take the dispatch modes above one, or all, from torch's stack, and put them back after the block."""
    above = []
    while (mode := _get_current_dispatch_mode()) is not lowest and mode is not None:
        above.append(_pop_mode())
    try:
        yield
    finally:
        for mode in reversed(above):
            _push_mode(mode)


def _is_wrapper(func: Any) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))


def cost_as_executed(func: Any, args: Any, kwargs: Any, out: Any) -> OpCost | None:
    """The cost of an operation of a program; None for one that may multiply tensors and has no formula."""
    try:
        return cost_of(func, args, kwargs, out, lambda _: None)  # masks do not change what is executed
    except Exception:  # noqa: BLE001 - an operation that cannot be counted is named, and has run
        return None


def product_dtype(args: Any) -> str:
    """The number format of a product: that of its first tensor."""
    first = next(leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor))
    return dtype_name(first.dtype)


def by_paths(counted: CountedStep | None, names: ModuleNames) -> CountedStep | None:
    """The counted step with paths in place of labels."""
    if counted is None:
        return None
    by_place = Counter[tuple[str, str, str]]()
    for (label, phase, op_class), flops in counted.by_place.items():
        by_place[names.path(label) or OUTSIDE, phase, op_class] += flops
    return counted._replace(by_place=dict(by_place))
