"""Functions of torch that order elements, or choose the largest: values, and where they were."""

from __future__ import annotations

from typing import Any, NamedTuple

from archcli.kernels.dtypes import INT64
from archcli.kernels.functions.indexing import scatter
from archcli.kernels.launching import launch, launch_many
from archcli.kernels.tensor import Sizes, in_torch, operation


class ChosenElements(NamedTuple):
    """Elements of a tensor, and their numbers along an axis."""

    values: Any
    indices: Any


def _chosen(name: str, x: Any, dim: int, shape: Sizes, *, keepdim: bool = True) -> ChosenElements:
    """Launch a kernel that chooses elements along an axis; the gradient goes back to where they were."""

    def backward(g: Any) -> tuple[Any]:
        indices = chosen.indices
        if not keepdim:
            g, indices = g.unsqueeze(dim), indices.unsqueeze(dim)
        zeros = launch("new_zeros", [], x.shape, x.dtype)
        return (scatter(zeros, dim, indices, g),)

    chosen = ChosenElements(*launch_many(name, [x], [(shape, x.dtype), (shape, INT64)], backward=backward))
    return chosen


@operation
def topk(x: Any, k: int, dim: int = -1) -> Any:
    """The k largest along an axis, in their order."""
    dim %= x.ndim
    return _chosen("topk", x, dim, (*x.shape[:dim], k, *x.shape[dim + 1 :]))


@operation
def sort(x: Any, dim: int = -1, *, stable: bool = False) -> Any:
    """All elements along an axis in their order."""
    return _chosen("sort", x, dim % x.ndim, x.shape)


@operation
def argsort(x: Any, dim: int = -1, *, stable: bool = False) -> Any:
    """The numbers of elements in their order."""
    return sort(x, dim, stable=stable).indices


@operation
def max_(x: Any, dim: int, keepdim: bool = False) -> Any:
    """The largest along an axis, and its number."""
    dim %= x.ndim
    one = (1,) if keepdim else ()
    return _chosen("max", x, dim, (*x.shape[:dim], *one, *x.shape[dim + 1 :]), keepdim=keepdim)


@in_torch
def randperm(n: int, *, device: Any = None) -> Any:
    """The numbers below n in a random order."""
    return launch("randperm", [], (n,), INT64)
