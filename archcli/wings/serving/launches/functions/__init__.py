"""Functions of torch on tensors without values: what each launches, forward and backward."""

from archcli.wings.serving.launches.functions import (
    attention,
    images,
    indexing,
    matrices,
    pieces,
    pointwise,
    products,
    recurrences,
    reductions,
    views,
)

__all__ = [
    "attention",
    "images",
    "indexing",
    "matrices",
    "pieces",
    "pointwise",
    "products",
    "recurrences",
    "reductions",
    "views",
]
