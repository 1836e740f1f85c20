"""FLOPs of one step of a program, counted at the dispatcher by the module that runs them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

from archcli.recording.classes import is_fused, is_product
from archcli.recording.program import CountedStep
from archcli.recording.walk import operation
from archcli.runtime.dtypes import dtype_name
from archcli.runtime.profile.census import Counting, executed, is_view
from archcli.runtime.program.modules import ModuleRanges

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

    def __enter__(self) -> Any:
        self.modules.start()
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        self.modules.end()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
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
        cost = executed(func, name, args, kwargs, out)
        flops = attention_flops(name, args) if is_fused(name) and cost.flops is None else cost.flops
        if flops is None:
            self.uncounted[name] += 1
        elif is_product(name) or is_fused(name):
            self.matmul[self.log.place()] += flops
            first = next(leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor))
            self.by_dtype[dtype_name(first.dtype)] += flops
        else:
            self.other += flops

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
