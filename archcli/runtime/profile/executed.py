"""FLOPs and elements of one execution of a torch operation, by its arguments.

Matrix products go by torch's own formulas, where it has one; softmax and norms, each one kernel, by the steps
of the table in `ops/base.py` that they contain, a Fourier transform as it is counted. Comparisons, copies,
choices and whole-number arithmetic compute nothing, everything else one FLOP per element of its largest
tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from archcli.ops.fourier import transform_flops
from archcli.recording.classes import flops_per_element, is_fused

OVERWRITES = {"bernoulli", "copy", "fill", "normal", "uniform", "zero"}
"""Operations in place that do not read what they write over."""


BY_SHAPES: Mapping[str, Callable[[Any, Any], Any]] = {
    "_grouped_mm": lambda tokens, matrices: 2 * tokens.numel() * matrices.shape[-1],
    "linalg_solve_triangular": lambda matrix, right: right.numel() * matrix.shape[-1],
    "_fft_c2c": lambda x, axes: transform_flops(x.numel(), [x.shape[axis] for axis in axes]),
}
"""FLOPs that torch has no formula for, by the first two arguments."""


class Executed(NamedTuple):
    """FLOPs (None for unknown fused kernels), elements read and elements written."""

    flops: int | None = 0
    read: int = 0
    written: int = 0

    def plus(self, more: Executed) -> Executed:
        """The sum of FLOPs and elements."""
        flops = None if self.flops is None or more.flops is None else self.flops + more.flops
        return Executed(flops, self.read + more.read, self.written + more.written)


def executed(func: Any, name: str, args: Any, kwargs: Any, out: Any) -> Executed:
    """The FLOPs and elements of one call of an operation, `name` without its namespace."""
    given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    made = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
    over = {id(tensor) for tensor in made} if name in OVERWRITES else set()
    read = sum(_elements(tensor) for tensor in given if id(tensor) not in over)
    return Executed(_flops(func, name, args, kwargs, out, [*given, *made]), read, sum(map(_elements, made)))


def _flops(func: Any, name: str, args: Any, kwargs: Any, out: Any, tensors: list[torch.Tensor]) -> int | None:
    if name in BY_SHAPES:
        return int(BY_SHAPES[name](*args[:2]))
    if func.overloadpacket in flop_registry:
        flops: int = flop_registry[func.overloadpacket](*args, **kwargs, out_val=out)
        return flops
    if is_fused(name):
        return None
    if not any(tensor.is_floating_point() for tensor in tensors):
        return 0
    return flops_per_element(name) * max(map(_elements, tensors))


def _elements(tensor: torch.Tensor) -> int:
    """Elements in memory, fewer than in the shape of an expanded tensor."""
    return min(tensor.numel(), tensor.untyped_storage().nbytes() // tensor.element_size())
