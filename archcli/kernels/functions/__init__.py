"""Functions of torch on tensors without values: what each launches, forward and backward."""

from archcli.kernels.functions import (
    attention,
    convolution,
    makers,
    pieces,
    pointwise,
    products,
    recurrences,
    reductions,
    triangles,
    views,
)

__all__ = [
    "attention",
    "convolution",
    "makers",
    "pieces",
    "pointwise",
    "products",
    "recurrences",
    "reductions",
    "triangles",
    "views",
]
