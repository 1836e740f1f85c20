"""Functions of torch that order elements, or read or write them at given places.

A kernel reads the elements that are asked for, not the whole tensor that holds them. One that adds to zeros
moves those elements alone; a function that returns a changed copy of x moves all of x besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from archcli.wings.serving.launches.dtypes import INT64
from archcli.wings.serving.launches.kernel import StatedWork
from archcli.wings.serving.launches.launching import (
    broadcast,
    launch,
    launch_many,
    needs_grad,
    save_for_backward,
)
from archcli.wings.serving.launches.tensor import ShapeTensor, Sizes, in_torch, method, operation


def _read(name: str, x: Any, indices: Sequence[Any], shape: Sizes, backward: Any) -> Any:
    """Launch a kernel that reads the indices, and as many elements of x as its output has."""
    out = ShapeTensor(shape, x.dtype)
    work = StatedWork(read=sum(index.bytes for index in indices) + out.bytes)
    return launch(name, [x, *indices], shape, x.dtype, backward=backward, work=work)


def _added_to_zeros(name: str, g: Any, x: Any, indices: Sequence[Any]) -> Any:
    """The gradient of x whose elements were read: zeros, plus the elements' gradients at their places."""
    zeros = launch("new_zeros", [], x.shape, g.dtype)
    return _added(name, zeros, indices, g, copied=0)


def _added(
    name: str, x: Any, indices: Sequence[Any], source: Any, *, copied: int, backward: Any = None
) -> Any:
    """Launch a kernel that adds the source at places of x; it copies `copied` bytes of x before."""
    moved = sum(index.bytes for index in indices) + 2 * source.bytes  # reads what it adds to, too
    work = StatedWork(source.numel(), moved + copied, source.bytes + copied)
    return launch(name, [x, *indices, source], x.shape, x.dtype, backward=backward, work=work)


@operation
def gather(x: Any, dim: int, index: Any) -> Any:
    """One element of x along an axis for each index."""
    out = _read("gather", x, [index], index.shape, lambda g: (_added_to_zeros("scatter_add", g, x, [index]),))
    save_for_backward(out, x)  # all of it, for its sizes alone (`gather` in derivatives.yaml)
    return out


@operation
def index_select(x: Any, dim: int, index: Any) -> Any:
    """Slices of x along an axis."""
    dim %= x.ndim
    shape = (*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])
    return _read("index_select", x, [index], shape, lambda g: (_added_to_zeros("index_add", g, x, [index]),))


@method
def index(x: Any, index_by: Sequence[Any]) -> Any:
    """x[i, j, …] for tensors of indices along the first axes."""
    indices = [i for i in index_by if isinstance(i, ShapeTensor)]
    if len(indices) != len(index_by):
        raise NotImplementedError("kernels of an index of tensors beside slices are not known")
    shape = (*broadcast(*[i.shape for i in indices]), *x.shape[len(indices) :])
    return _read("index", x, indices, shape, lambda g: (_added_to_zeros("index_put", g, x, indices),))


@operation
def scatter(x: Any, dim: int, index: Any, source: Any) -> Any:
    """A copy of x with elements, or a number, written along an axis."""

    def backward(g: Any) -> tuple[Any, ...]:
        of_x = scatter(g, dim, index, 0) if needs_grad(x) else None
        return of_x, None, gather(g, dim, index) if needs_grad(source) else None

    written = index.numel() * x.itemsize
    sources = [source] if isinstance(source, ShapeTensor) else []
    work = StatedWork(written=x.bytes + written)
    return launch("scatter", [x, index, *sources], x.shape, x.dtype, backward=backward, work=work)


@operation
def scatter_add(x: Any, dim: int, index: Any, source: Any) -> Any:
    """A copy of x with elements added along an axis."""

    def backward(g: Any) -> tuple[Any, ...]:
        return g, None, gather(g, dim, index) if needs_grad(source) else None

    return _added("scatter_add", x, [index], source, copied=x.bytes, backward=backward)


@operation
def index_add(x: Any, dim: int, index: Any, source: Any) -> Any:
    """A copy of x with slices added along an axis."""

    def backward(g: Any) -> tuple[Any, ...]:
        return g, None, index_select(g, dim, index) if needs_grad(source) else None

    out = _added("index_add", x, [index], source, copied=x.bytes, backward=backward)
    if needs_grad(source):
        save_for_backward(out, source)  # for its sizes alone (`index_add` in derivatives.yaml)
    return out


@operation
def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """A copy of x with the elements of `source`, in order, at the places of a mask."""

    def backward(g: Any) -> tuple[Any, ...]:
        of_x = g.masked_fill(mask, 0) if needs_grad(x) else None
        taken = StatedWork(read=mask.bytes + source.bytes)
        of_source = launch("masked_scatter_backward", [g, mask], source.shape, g.dtype, work=taken)
        return of_x, None, of_source if needs_grad(source) else None

    work = StatedWork(read=x.bytes + mask.bytes + source.bytes)
    return launch("masked_scatter", [x, mask, source], x.shape, x.dtype, backward=backward, work=work)


@operation
def bincount(x: Any, *, minlength: int = 0) -> Any:
    """How often each number occurs."""
    return launch("bincount", [x], (minlength,), INT64)


class ChosenElements(NamedTuple):
    """Elements of a tensor, and their indices along an axis."""

    values: Any
    indices: Any


def _chosen(name: str, x: Any, dim: int, shape: Sizes, *, keepdim: bool = True) -> ChosenElements:
    """Launch a kernel that chooses elements along an axis; their gradients go back to their places."""

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
    """The k largest elements along an axis in falling order, and their indices."""
    dim %= x.ndim
    return _chosen("topk", x, dim, (*x.shape[:dim], k, *x.shape[dim + 1 :]))


@operation
def sort(x: Any, dim: int = -1, *, stable: bool = False) -> Any:
    """The elements sorted along an axis, and their indices."""
    return _chosen("sort", x, dim % x.ndim, x.shape)


@operation
def argsort(x: Any, dim: int = -1, *, stable: bool = False) -> Any:
    """The indices that sort x along an axis."""
    return sort(x, dim, stable=stable).indices


@operation
def max_(x: Any, dim: int, keepdim: bool = False) -> Any:
    """The largest element along an axis, and its index."""
    dim %= x.ndim
    kept_axis = (1,) if keepdim else ()
    return _chosen("max", x, dim, (*x.shape[:dim], *kept_axis, *x.shape[dim + 1 :]), keepdim=keepdim)


@in_torch
def randperm(n: int, *, device: Any = None) -> Any:
    """The numbers below n in a random order."""
    return launch("randperm", [], (n,), INT64)
