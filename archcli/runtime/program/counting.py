"""FLOPs of one step of a program, counted at the dispatcher by the module that runs them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from archcli.graph import OpClass
from archcli.recording.classes import FUSED, RECURRENCE, class_by_name, is_fused, is_scan
from archcli.recording.program import CountedStep
from archcli.recording.walk import operation
from archcli.runtime.dtypes import dtype_name
from archcli.runtime.profile.census import BY_SHAPES, Counting, executed, is_view
from archcli.runtime.program.modules import ModuleRanges

CONTRACTING = {OpClass.CONTRACTION, FUSED, RECURRENCE}
"""Classes whose operations multiply matrices: one without a formula is named, never counted as nothing."""
BATCHED = 2
"""Axes of the tokens of a batch."""


class StepCounting(Counting):
    """Counts the FLOPs of one step, within the modules that run it."""

    def __init__(self, modules: ModuleRanges) -> None:
        super().__init__(modules.log)
        self.modules = modules
        self.matmul, self.other = Counter[tuple[str, str]](), 0
        self.by_dtype, self.uncounted = Counter[str](), Counter[str]()
        self.tokens: tuple[int, int] | None = None

    def begin(self) -> None:
        """Count from here on."""
        self.modules.start()
        self.__enter__()

    def end(self) -> None:
        """Count no longer."""
        self.__exit__(None, None, None)
        self.modules.end()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _is_wrapper(func):  # under inference_mode it comes here whole
            with self:
                made = func.decompose(*args, **kwargs)
            if made is not NotImplemented:
                return made
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
        if not multiplies(name):
            self.other += executed(func, name, args, kwargs, out).flops or 0
            return
        flops = product_flops(func, name, args, kwargs, out)
        if flops is None:
            self.uncounted[name] += 1
            return
        self.matmul[self.log.place()] += flops
        self.by_dtype[product_dtype(args)] += flops

    @property
    def step(self) -> CountedStep:
        """What was counted."""
        return CountedStep(
            sum(self.matmul.values()),
            self.other,
            dict(self.matmul),
            dict(self.by_dtype),
            dict(self.uncounted),
        )


def _is_wrapper(func: Any) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))


def multiplies(name: str) -> bool:
    """Whether an operation multiplies matrices."""
    return class_by_name(name) in CONTRACTING and not is_scan(name)


def product_flops(func: Any, name: str, args: Any, kwargs: Any, out: Any) -> int | None:
    """FLOPs of an operation that multiplies matrices; None where no formula is known."""
    if is_fused(name):
        by_torch = executed(func, name, args, kwargs, out).flops
        return attention_flops(name, args) if by_torch is None else by_torch
    if name in BY_SHAPES or func.overloadpacket in flop_registry:
        return executed(func, name, args, kwargs, out).flops
    return None


def product_dtype(args: Any) -> str:
    """The number format of a product: that of its first tensor."""
    first = next(leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor))
    return dtype_name(first.dtype)


def attention_flops(name: str, args: Any) -> int | None:
    """FLOPs of a fused attention kernel that torch has no formula for, all pairs of the shape counted."""
    shapes = [tuple(x.shape) for x in args if isinstance(x, torch.Tensor)]
    if name == "_scaled_dot_product_flash_attention_for_cpu":
        forward: int = sdpa_flop_count(*shapes[:3])
        return forward
    if name == "_scaled_dot_product_flash_attention_for_cpu_backward":
        backward: int = sdpa_backward_flop_count(*shapes[:4])
        return backward
    return None
