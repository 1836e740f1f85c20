"""Ops from logits to a loss: log-sum-exp, log-softmax, the target's entry, difference, mean.

B batch, T tokens, V entries of the last axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.ops.base import (
    LOG_SOFTMAX,
    LOG_SOFTMAX_BACKWARD,
    LOG_SOFTMAX_PER_ROW,
    LOG_SUM_EXP,
    LOG_SUM_EXP_BACKWARD,
    LOG_SUM_EXP_PER_ROW,
    movement,
)


@dataclass(frozen=True, slots=True, eq=False)
class LogSumExp(Op):
    """y = log sum exp x over the last axis, [..., V] to [...]; in fp32, whatever the input's width."""

    name: str

    def shape(self, x: Shape) -> Shape:
        return x[:-1]

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, rows = prod(x), prod(x[:-1])
        gradient = Part("d_0", OpClass.NORMALIZATION, LOG_SUM_EXP_BACKWARD * n, n + 2 * rows, n, wrt=0)
        return (
            Part(
                "log_sum_exp",
                OpClass.NORMALIZATION,
                LOG_SUM_EXP * n + LOG_SUM_EXP_PER_ROW * rows,
                n,
                rows,
                (gradient,),
            ),
        )

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return torch.logsumexp(x.float(), dim=-1)


@dataclass(frozen=True, slots=True, eq=False)
class LogSoftmax(Op):
    """y = x - log sum exp x over the last axis."""

    name: str

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, rows = prod(x), prod(x[:-1])
        gradient = Part("d_0", OpClass.NORMALIZATION, LOG_SOFTMAX_BACKWARD * n, 2 * n, n, wrt=0)
        return (
            Part(
                "log_softmax",
                OpClass.NORMALIZATION,
                LOG_SOFTMAX * n + LOG_SOFTMAX_PER_ROW * rows,
                n,
                n,
                (gradient,),
            ),
        )

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return torch.log_softmax(x, dim=-1)


@dataclass(frozen=True, slots=True, eq=False)
class GatherLast(Op):
    """One entry of the last axis per row: x [..., V], index [...] to [...].

    A gather: no FLOPs; the gradient is put back into its place.
    """

    name: str

    def shape(self, x: Shape, index: Shape) -> Shape:
        return index

    def parts(self, x: Shape, index: Shape) -> tuple[Part, ...]:
        rows = prod(index)
        return (movement("pick", 2 * rows, rows),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, index: Any) -> Any:
        # torch's gather would keep all of x for the sake of its size
        entries = x.shape[-1]
        first = torch.arange(index.numel(), device=x.device).view(index.shape) * entries
        # index_select refuses -1: an index out of range must not read another row
        place = torch.where((index >= 0) & (index < entries), first + index, -1)
        return x.flatten().index_select(0, place.flatten()).view(index.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Subtract(Op):
    """y = a - b of equal shapes. Backward: the gradient of a is that of y, of b its negative."""

    drawn: ClassVar[str] = "join"
    sign: ClassVar[str] = "−"
    name: str

    def parts(self, a: Shape, b: Shape) -> tuple[Part, ...]:
        n = prod(a)
        gradient = Part("d_1", OpClass.ELEMENTWISE, n, n, n, wrt=1)
        return (Part("subtract", OpClass.ELEMENTWISE, n, 2 * n, n, (gradient,)),)

    def run(self, torch: Any, weights: dict[str, Any], a: Any, b: Any) -> Any:
        return a - b


@dataclass(frozen=True, slots=True, eq=False)
class Mean(Op):
    """The sum of all elements over how many they are, or over `count`; a scalar.

    n - 1 additions and a division; the gradient is divided once and spread.
    """

    name: str
    count: Number | None = None

    def shape(self, x: Shape) -> Shape:
        return ()

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n = prod(x)
        gradient = Part("d_0", OpClass.NORMALIZATION, 1, 1, n, wrt=0)
        return (Part("mean", OpClass.NORMALIZATION, n, n, 1, (gradient,)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.sum() / (x.numel() if self.count is None else self.count)
