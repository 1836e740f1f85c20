"""What the op files share: constructors of parts, and the one table of FLOPs per element of everything that is not a matrix product.

Convention of the table: Ivanov et al. 2021 (arXiv:2007.00072) as reproduced from its Table 1 and operator list: softmax
5 forward (scale, subtract the maximum, exp, add, divide; the maximum itself 0) and 5 backward; LayerNorm 7 forward, 9
for the input's gradient, 4 for the weights'; ReLU 0, for it is a maximum; every other element-wise function 1. Norms
with fewer terms count the terms they have.
"""

from __future__ import annotations

from collections.abc import Sequence

from archcli.arith import Number
from archcli.graph import OpClass, Part

SOFTMAX_FORWARD, SOFTMAX_BACKWARD = 5, 5
LAYERNORM_FORWARD, LAYERNORM_BACKWARD, LAYERNORM_WEIGHT = 7, 9, 4
# RMSNorm leaves out what a mean costs: summing, subtracting and the bias forward; in the gradient, re-centring x, the sum
# of dy and subtracting its mean.
RMSNORM_FORWARD, RMSNORM_BACKWARD, RMSNORM_WEIGHT = 5 - 1, 9 - 3, 4 - 1
SOFTCAP = 3  # divide, tanh, multiply; Gemma 2, arXiv:2408.00118 section 2
ROTATE = 3  # two products and a sum per rotated element; RoFormer, arXiv:2104.09864 equation 34


def contraction(
    name: str, flops: Number, operands: Sequence[tuple[Number, int | str | tuple[int, ...]]], out: Number, executed: Number | None = None
) -> Part:
    """A matrix product. Its backward is one product of the same cost per operand that needs a gradient, `(elements, wrt)` each."""
    total = sum(size for size, _ in operands)
    backward = tuple(
        Part(
            "_".join(["d", *map(str, wrt if isinstance(wrt, tuple) else (wrt,))]),
            OpClass.CONTRACTION,
            flops,
            total - size + out,
            size,
            executed=executed,
            wrt=wrt,
        )
        for size, wrt in operands
    )
    return Part(name, OpClass.CONTRACTION, flops, total, out, backward, executed)


def bias(out: Number, width: Number) -> Part:
    """Adding a bias; its gradient is a reduction over the tokens, which Ivanov et al. class with the normalizations."""
    gradient = Part("d_bias", OpClass.NORMALIZATION, out, out, width, wrt="bias")
    return Part("bias", OpClass.ELEMENTWISE, out, out + width, out, (gradient,))


def elementwise(
    name: str, elements: Number, per_element: int = 1, operands: int = 1, backward_per_element: int | None = None, *, curved: bool = False
) -> Part:
    """An element-wise function of `operands` equal inputs; the gradient costs the same per element and per operand unless stated.

    Where the function is `curved`, its slope differs from element to element: the gradient reads what the forward has kept, too.
    """
    back = per_element if backward_per_element is None else backward_per_element
    read = (operands + curved) * elements
    gradients = tuple(Part(f"d_{i}", OpClass.ELEMENTWISE, back * elements, read, elements, wrt=i) for i in range(operands))
    return Part(name, OpClass.ELEMENTWISE, per_element * elements, operands * elements, elements, gradients)


def movement(name: str, read: Number, written: Number, op_class: OpClass = OpClass.MOVEMENT) -> Part:
    """Data that moves without arithmetic; its gradient moves back."""
    return Part(name, op_class, 0, read, written, (Part("d_0", op_class, 0, written, read, wrt=0),))
