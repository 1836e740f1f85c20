"""Constructors of parts, FLOPs per element of operations without products, and the base of views.

Convention of the table: Ivanov et al. 2021 (arXiv:2007.00072), its Table 1 and operator list.

- Softmax: 5 forward (scale, subtract the maximum, exp, add, divide; the maximum itself 0), 5 backward.
- LayerNorm: 7 forward, 9 for the input's gradient, 4 for the weights'. Norms with fewer terms count those
  they have.
- ReLU: 0, for it is a maximum. Every other element-wise function: 1.
- The gradient of what was broadcast or looked up is a sum, 1 per element added up. The paper classes a bias's
  gradient with the normalizations.
- Gradients that meet because a tensor was used twice are counted at the additions of a residual stream alone,
  as in the paper, not where a tied table or the output of a norm is read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from archcli.arith import Number
from archcli.graph import Op, OpClass, Part

SOFTMAX_FORWARD, SOFTMAX_BACKWARD = 5, 5
LAYERNORM_FORWARD, LAYERNORM_BACKWARD, LAYERNORM_WEIGHT = 7, 9, 4
# RMSNorm leaves out what a mean costs: summing, subtracting and the bias forward;
# in the gradient, re-centring x, the sum of dy and subtracting its mean
RMSNORM_FORWARD, RMSNORM_BACKWARD, RMSNORM_WEIGHT = 5 - 1, 9 - 3, 4 - 1
LOG_SUM_EXP = SOFTMAX_FORWARD - 2  # subtract the maximum, exp, add: no scale, no division
LOG_SUM_EXP_PER_ROW = 2  # the logarithm, and the maximum added back
LOG_SUM_EXP_BACKWARD = 3  # subtract the result, exp, times the gradient
LOG_SOFTMAX = SOFTMAX_FORWARD - 1  # no scale; a subtraction in place of the division
LOG_SOFTMAX_PER_ROW = 1  # the logarithm
# exp of the result, the sum of the gradients, their product, subtract
LOG_SOFTMAX_BACKWARD = SOFTMAX_BACKWARD - 1
SOFTCAP = 3  # divide, tanh, multiply; Gemma 2, arXiv:2408.00118 section 2
ROTATE = 3  # two products and a sum per rotated element; RoFormer, arXiv:2104.09864 equation 34

WHOLE_NUMBERS = "whole numbers: no floating-point arithmetic"
"""Why ops on ids cost nothing."""


class View(Op):
    """Base of the ops whose outputs are the input's storage, seen in another shape."""

    __slots__ = ()
    is_view: ClassVar[bool] = True
    zero_cost_reason: ClassVar[str] = "a view: no element moves"


def has_no_values(x: Any) -> bool:
    """Whether a torch tensor is a shape alone: on meta, or a fake one of torch's."""
    return x.device.type == "meta" or hasattr(x, "fake_mode")


def as_number(size: Any) -> Any:
    """A size as it is: a whole number, or one that stands for many. While torch.jit traces it is a tensor."""
    return size if isinstance(size, int) else int(size)


def heads_of(n_heads: int, peers: Any) -> tuple[int, int]:
    """(index of a rank's first head, heads of all ranks), where each rank has `n_heads`.

    For what differs by head without a weight for each, as ALiBi's slopes do. Without peers one rank has all.
    """
    return (0, n_heads) if peers is None else (peers.rank * n_heads, peers.number * n_heads)


def contraction(
    name: str,
    flops: Number,
    operands: Sequence[tuple[Number, int | str | tuple[int, ...]]],
    out: Number,
    executed: Number | None = None,
) -> Part:
    """The cost of a matrix product of operands `(elements, wrt)`: `wrt` is what the gradient is of.

    Its backward is one product of the same cost per operand that needs a gradient.
    """
    total = sum(size for size, _ in operands)
    of_weights = sum(size for size, wrt in operands if isinstance(wrt, str))
    backward = tuple(
        Part(
            "_".join(["d", *map(str, wrt if isinstance(wrt, tuple) else (wrt,))]),
            OpClass.CONTRACTION,
            flops,
            total - size + out,
            size,
            executed=executed,
            wrt=wrt,
            weights=of_weights,
        )
        for size, wrt in operands
    )
    return Part(name, OpClass.CONTRACTION, flops, total, out, backward, executed, weights=of_weights)


def bias(out: Number, width: Number) -> Part:
    """The cost of adding a bias; its gradient is a sum over the tokens."""
    return Part("bias", OpClass.ELEMENTWISE, out, out + width, out, (summed("bias", out, width),))


def summed(wrt: int | str, terms: Number, sums: Number, index: Number = 0) -> Part:
    """The cost of the gradient of a broadcast or looked-up tensor: `terms` elements added up to `sums`."""
    return Part(f"d_{wrt}", OpClass.NORMALIZATION, terms, terms + index, sums, wrt=wrt)


def elementwise(
    name: str, elements: Number, per_element: int = 1, *, back: int | None = None, saved: int = 0
) -> Part:
    """The cost of an element-wise function of one input, and of its gradient (by default the same).

    `saved` tensors of the same size are read beside the incoming gradient: 1 for a curve, 0 for a product
    with a constant.
    """
    flops = (per_element if back is None else back) * elements
    gradient = Part("d_0", OpClass.ELEMENTWISE, flops, (1 + saved) * elements, elements, wrt=0)
    return Part(name, OpClass.ELEMENTWISE, per_element * elements, elements, elements, (gradient,))


def movement(name: str, read: Number, written: Number, backward: tuple[Part, ...] | None = None) -> Part:
    """The cost of moving data without arithmetic; by default its gradient moves back."""
    back = Part("d_0", OpClass.MOVEMENT, 0, written, read, wrt=0)
    return Part(name, OpClass.MOVEMENT, 0, read, written, (back,) if backward is None else backward)
