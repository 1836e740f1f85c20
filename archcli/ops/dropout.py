"""Dropout: some elements zeroed at random, in training alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.graph.kept import BOOL, Call, Kept, New


@dataclass(frozen=True, slots=True, eq=False)
class Dropout(Op):
    """y = x * mask / (1 - p) in training, each element of the mask 0 with probability p; else y = x.

    Srivastava et al. 2014 (JMLR 15). One FLOP per element, forward and backward (Ivanov et al.,
    arXiv:2007.00072). The mask is written beside the result and read again by the gradient. Drawing random
    numbers is no FLOP.
    """

    name: str
    p: float
    needs_module: ClassVar[bool] = True

    def shape(self, x: Shape) -> Shape:
        return x

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n = prod(x)
        gradient = Part("d_0", OpClass.ELEMENTWISE, n, 2 * n, n, wrt=0)
        return (Part("dropout", OpClass.ELEMENTWISE, n, n, 2 * n, (gradient,), training=True),)

    def kept(self, call: Call, x: Shape) -> tuple[Kept, ...]:
        return (New(prod(x), BOOL if call.on_cuda else call.widths[0]),)

    def views(self, call: Call, x: Shape) -> tuple[int | None, ...]:
        return (None if call.execution.records else 0,)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x

    def leaf(self, nn: Any, x: Shape) -> Any:
        return nn.Dropout(self.p)
