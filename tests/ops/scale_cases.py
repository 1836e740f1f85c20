"""Constant factors on pieces of an axis: a projection of Falcon-H1's Mamba-2 layers."""

import torch

from archcli.graph import OpClass
from archcli.ops import ScaleParts
from ops.case import Case

X, n = (2, 3, 5), 30
E = OpClass.ELEMENTWISE

CASES = {
    # as one factor costs; the gradient reads no input
    "scale-parts": Case(ScaleParts("y", (2, 3), (0.3, 1.7)), (X,), X, {E: n}, {E: n}, (n, n), 2 * n),
}


def scale_parts(op, weights, x):
    """Each number of the last axis times the factor of its piece."""
    factors = [factor for size, factor in zip(op.sizes, op.factors, strict=True) for _ in range(size)]
    return torch.stack([x[..., i] * factor for i, factor in enumerate(factors)], dim=-1)


REFERENCES = {"ScaleParts": scale_parts}
