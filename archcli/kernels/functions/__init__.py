"""Functions of torch on tensors without values: what each launches, forward and backward."""

from archcli.kernels.functions import attention, makers, pieces, pointwise, products, reductions, views

__all__ = ["attention", "makers", "pieces", "pointwise", "products", "reductions", "views"]
