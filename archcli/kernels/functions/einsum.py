"""torch.einsum of two tensors: one product in batches, after the copies that it takes."""

from __future__ import annotations

from typing import Any

from archcli.arith import prod
from archcli.kernels.functions.products import bmm
from archcli.kernels.tensor import in_torch


@in_torch
def einsum(equation: str, a: Any, b: Any) -> Any:
    """A contraction in Einstein notation; axes that one tensor alone has must be in the output.

    The product's axes are those of both tensors, of the first and of the second. torch swaps the two where
    all axes of the second alone come before those of the first in the output, which then lies as it should.
    """
    inputs, out = equation.split("->")
    left, right = inputs.split(",")
    sizes = {**dict(zip(left, a.shape, strict=True)), **dict(zip(right, b.shape, strict=True))}
    of_a, of_b = ([i for i, axis in enumerate(out) if axis not in other] for other in (right, left))
    if of_a and of_b and of_b[-1] < of_a[0]:
        a, b, left, right, of_a, of_b = b, a, right, left, of_b, of_a
    first, second = ("".join(out[i] for i in axes) for axes in (of_a, of_b))
    both = "".join(axis for axis in out if axis in left and axis in right)
    summed = "".join(sorted({*left} & {*right} - {*out}))
    n, k, m, batch = (int(prod(sizes[axis] for axis in axes)) for axes in (first, summed, second, both))
    a = a.permute([left.index(axis) for axis in both + first + summed]).reshape(batch, n, k)
    b = b.permute([right.index(axis) for axis in both + summed + second]).reshape(batch, k, m)
    made = both + first + second
    product = bmm(a, b).view(*[sizes[axis] for axis in made])
    return product.permute([made.index(axis) for axis in out])
