"""Functions of torch on tensors without values: what each launches, forward and backward."""

from archcli.kernels.functions import (
    attention,
    choices,
    convolution,
    einsum,
    fourier,
    indexing,
    makers,
    pieces,
    pointwise,
    products,
    recurrences,
    reductions,
    statistics,
    triangles,
    views,
)

__all__ = [
    "attention",
    "choices",
    "convolution",
    "einsum",
    "fourier",
    "indexing",
    "makers",
    "pieces",
    "pointwise",
    "products",
    "recurrences",
    "reductions",
    "statistics",
    "triangles",
    "views",
]
