"""Functions of torch on whole matrices: triangles, systems that they solve, Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archcli.arith import prod
from archcli.wings.serving.launches.dtypes import COMPLEX, FP32, NAMED, DType
from archcli.wings.serving.launches.functions.pieces import among_zeros
from archcli.wings.serving.launches.kernel import StatedWork
from archcli.wings.serving.launches.launching import elementwise, launch, needs_grad, view
from archcli.wings.serving.launches.tensor import Sizes, in_torch, method, operation, row_major


def _triangle(name: str, x: Any, diagonal: int) -> Any:
    return launch(name, [x], x.shape, x.dtype, backward=lambda g: (_triangle(name, g, diagonal),))


@operation
def triu(x: Any, diagonal: int = 0) -> Any:
    """The elements on and above a diagonal, 0 elsewhere."""
    return _triangle("triu", x, diagonal)


@operation
def tril(x: Any, diagonal: int = 0) -> Any:
    """The elements on and below a diagonal, 0 elsewhere."""
    return _triangle("tril", x, diagonal)


@in_torch
def eye(n: int, m: int | None = None, *, dtype: DType | None = None, device: Any = None) -> Any:
    """The unit matrix."""
    return launch("eye", [], (n, n if m is None else m), dtype or FP32)


@in_torch
def solve_triangular(a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """X of A X = B for matrices [..., n, n] and [..., n, m], or of X A = B; columns of X lie in one piece."""

    def backward(g: Any) -> tuple[Any, Any]:
        of_b = solve_triangular(
            a.transpose(-2, -1), g, upper=not upper, left=left, unitriangular=unitriangular
        )
        if not needs_grad(a):
            return None, of_b
        turned = solution.transpose(-2, -1)
        of_a = -(of_b @ turned if left else turned @ of_b)
        of_a = of_a.triu(int(unitriangular)) if upper else of_a.tril(-int(unitriangular))
        return of_a, of_b if needs_grad(b) else None

    *lead, n, m = b.shape
    order = n if left else m  # for each unknown one product and one sum with each before it; a division
    work = StatedWork(prod(lead) * n * m * (order - 1 if unitriangular else order))
    strides = _by_column((*lead, n, m))
    name = "linalg_solve_triangular"
    solution = launch(name, [a, b], b.shape, b.dtype, backward=backward, strides=strides, work=work)
    return solution


def _by_column(shape: Sizes) -> Sizes:
    """Strides of matrices whose columns lie in one piece."""
    *lead, n, m = shape
    before = [n * m * prod(lead[i + 1 :]) for i in range(len(lead))]
    return (*before, 1, n)


COMPLEX64 = NAMED["complex64"]
PAIR = 2
"""Real numbers of a complex one, side by side in memory."""


@in_torch
def fftn(x: Any, *, dim: Sequence[int]) -> Any:
    """The transform of real numbers along several axes: one kernel, after a copy as complex numbers."""
    if x.dtype != FP32:
        raise NotImplementedError(f"kernels of torch.fft.fftn of {x.dtype.name} are not known")
    copied = elementwise("_to_copy", x, dtype=COMPLEX64, backward=lambda g: (real_part(g),))
    return _transformed(copied, [axis % x.ndim for axis in dim])


def _transformed(x: Any, axes: Sequence[int]) -> Any:
    """The transform; its gradient is one in the other direction."""
    from archcli.ops.dense import transform_flops  # of few models

    work = StatedWork(transform_flops(x.numel(), [x.shape[axis] for axis in axes]))
    return launch("_fft_c2c", [x], x.shape, x.dtype, backward=lambda g: (_transformed(g, axes),), work=work)


@method
def real_part(x: Any) -> Any:
    """A view of every second number in memory; backward each has 0 beside it."""
    if x.dtype.kind != COMPLEX:
        return x

    def backward(g: Any) -> tuple[Any]:
        pairs: Sizes = (*x.shape, PAIR)
        return (view(among_zeros("select_backward", g, pairs), x.shape, row_major(x.shape), dtype=x.dtype),)

    strides = tuple([PAIR * stride for stride in x.strides])
    return view(x, x.shape, strides, backward=backward, dtype=FP32)
