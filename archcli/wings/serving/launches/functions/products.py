"""Matrix products and convolutions of torch: the kernel of each, its copies, and its backward."""

from __future__ import annotations

from typing import Any

from archcli.arith import prod
from archcli.wings.serving.launches.kernel import StatedWork
from archcli.wings.serving.launches.launching import (
    launch,
    launch_gradients,
    lowered,
    needs_grad,
    sum_to,
)
from archcli.wings.serving.launches.tensor import in_torch, operation

MATRIX = 2
"""Axes of a matrix."""


def _product(name: str, a: Any, b: Any, added: Any = None, *, beta: float = 1, alpha: float = 1) -> Any:
    """alpha a b + beta added, of two matrices or of batches of them; backward a product for each."""
    a, b, added = lowered(a, b, added)
    plain = mm if a.ndim == MATRIX else bmm

    def backward(g: Any) -> tuple[Any, ...]:
        scaled = g if alpha == 1 else g * alpha
        of_added = sum_to(g if beta == 1 else g * beta, added.shape) if needs_grad(added) else None
        of_a = _of_left(plain, scaled, a, b) if needs_grad(a) else None
        of_b = plain(a.transpose(-2, -1), scaled) if needs_grad(b) else None
        return of_a, of_b, of_added

    shape, work = (*a.shape[:-1], b.shape[-1]), StatedWork(2 * a.numel() * b.shape[-1])
    return launch(name, [a, b, added], shape, a.dtype, backward=backward, work=work)


def _of_left(plain: Any, g: Any, a: Any, b: Any) -> Any:
    """The gradient g b^T of a, by column where the matrix a lies by column (torch's mm_mat1_backward)."""
    by_column = a.ndim == MATRIX and a.strides[0] == 1 and a.strides[1] == a.shape[0]
    return mm(b, g.t()).t() if by_column else plain(g, b.transpose(-2, -1))


@operation
def mm(a: Any, b: Any) -> Any:
    """[m, k] times [k, n]."""
    return _product("mm", a, b)


@in_torch
def addmm(bias: Any, a: Any, b: Any) -> Any:
    """bias + a b."""
    return _product("addmm", a, b, bias)


@operation
def bmm(a: Any, b: Any) -> Any:
    """[B, m, k] times [B, k, n]."""
    return _product("bmm", a, b)


@operation
def baddbmm(c: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta c + alpha a b."""
    return _product("baddbmm", a, b, c, beta=beta, alpha=alpha)


@operation
def matmul(a: Any, b: Any) -> Any:
    """A product over the last two axes: one of matrices where torch folds the others, else a batch."""
    if a.ndim == MATRIX and b.ndim == MATRIX:
        return mm(a, b)
    if b.ndim == MATRIX and _folds(a, b):
        return mm(a.reshape(-1, a.shape[-1]), b).view(*a.shape[:-1], b.shape[-1])
    if a.ndim == MATRIX and needs_grad(a):
        turned = b.transpose(-2, -1)
        product = mm(turned.reshape(-1, turned.shape[-1]), a.t()).view(*turned.shape[:-1], a.shape[0])
        return product.transpose(-2, -1).contiguous()
    lead = tuple(max(x, y) for x, y in zip(_lead(a, b), _lead(b, a), strict=True))
    batch = prod(lead)
    left = a.expand(*lead, *a.shape[-2:]).reshape(batch, *a.shape[-2:])
    right = b.expand(*lead, *b.shape[-2:]).reshape(batch, *b.shape[-2:])
    return bmm(left, right).view(*lead, a.shape[-2], b.shape[-1])


def _folds(a: Any, matrix: Any) -> bool:
    """Whether torch makes a matrix of all but the last axis of a.

    It does where the other wants a gradient, and where a view will do (should_fold of its LinearAlgebra.cpp).
    """
    axes = range(a.ndim - MATRIX)
    return needs_grad(matrix) or all(a.strides[i] == a.strides[i + 1] * a.shape[i + 1] for i in axes)


def _lead(x: Any, like: Any) -> tuple[int, ...]:
    """The leading axes of x, as many as the other has."""
    return (*(1,) * (like.ndim - x.ndim), *x.shape[:-2])


@in_torch
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """x W^T + b: one kernel with the bias where x is a matrix or lies in memory as one."""
    x, weight, bias = lowered(x, weight, bias)
    matrix = weight.t()
    if x.ndim == MATRIX:
        return mm(x, matrix) if bias is None else addmm(bias, x, matrix)
    if bias is not None and x.is_contiguous():
        return addmm(bias, x.view(-1, x.shape[-1]), matrix).view(*x.shape[:-1], weight.shape[0])
    y = matmul(x, matrix)
    return y if bias is None else y + bias


@in_torch
def einsum(equation: str, a: Any, b: Any) -> Any:
    """A contraction in Einstein notation; axes that one tensor alone has must be in the output.

    The product's axes are those of both tensors, of the first and of the second. torch swaps the two where
    all axes of the second alone come before those of the first in the output, so that it lies in that order.
    """
    inputs, out = equation.split("->")
    left, right = inputs.split(",")
    sizes = {**dict(zip(left, a.shape, strict=True)), **dict(zip(right, b.shape, strict=True))}
    of_a, of_b = ([i for i, axis in enumerate(out) if axis not in axes] for axes in (right, left))
    if of_a and of_b and of_b[-1] < of_a[0]:
        a, b, left, right, of_a, of_b = b, a, right, left, of_b, of_a
    first, second = ("".join(out[i] for i in axes) for axes in (of_a, of_b))
    both = "".join(axis for axis in out if axis in left and axis in right)
    summed = "".join(sorted({*left} & {*right} - {*out}))
    n, k, m, batch = (prod(sizes[axis] for axis in axes) for axes in (first, summed, second, both))
    a = a.permute([left.index(axis) for axis in both + first + summed]).reshape(batch, n, k)
    b = b.permute([right.index(axis) for axis in both + summed + second]).reshape(batch, k, m)
    order = both + first + second
    product = bmm(a, b).view(*[sizes[axis] for axis in order])
    return product.permute([order.index(axis) for axis in out])


@in_torch
def conv1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Any:
    """x [B, C, T] with taps [out, C / groups, K]: [B, out, T']."""
    length = (x.shape[2] + 2 * padding - dilation * (weight.shape[2] - 1) - 1) // stride + 1
    shape = (x.shape[0], weight.shape[0], length)
    flops = 2 * x.shape[0] * length * weight.numel()

    def backward(g: Any) -> tuple[Any, ...]:
        products = flops * (needs_grad(x) + needs_grad(weight))
        work = StatedWork(products + (g.numel() if needs_grad(bias) else 0))
        return launch_gradients("convolution_backward", [g, x, weight], (x, weight, bias), work=work)

    work = StatedWork(flops if bias is None else flops + shape[0] * shape[1] * length)
    return launch("convolution", [x, weight, bias], shape, x.dtype, backward=backward, work=work)
