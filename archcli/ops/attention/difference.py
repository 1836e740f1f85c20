"""WeightedDifference: two results of attention, one taken off the other by a trained share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part


@dataclass(frozen=True, slots=True, eq=False)
class WeightedDifference(Op):
    """a - lambda b with lambda = exp(q1 k1) - exp(q2 k2) + start, of four trained vectors [width].

    Differential attention, arXiv:2410.05258 section 2.1.
    """

    vectors: ClassVar[tuple[str, ...]] = ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")
    name: str
    width: Number
    start: float

    def weights(self, a: Shape, b: Shape) -> dict[str, Shape]:
        return dict.fromkeys(self.vectors, (self.width,))

    def initial(self, weight: str) -> float | None:
        return None  # small random numbers: at 0 no gradient would move them

    def parts(self, a: Shape, b: Shape) -> tuple[Part, ...]:
        n, width = prod(a), self.width
        share = Part("lambda", OpClass.NORMALIZATION, 4 * width, 4 * width, 1, self._of_vectors(n))
        to_b = Part("d_1", OpClass.ELEMENTWISE, n, n + 1, n, wrt=1)
        return (share, Part("difference", OpClass.ELEMENTWISE, 2 * n, 2 * n + 1, n, (to_b,)))

    def _of_vectors(self, n: Number) -> tuple[Part, ...]:
        """Gradients of the vectors: that of lambda is a sum over all n elements, and scales the partner."""
        width = self.width
        cost = 2 * n + width  # FLOPs, and elements read
        return tuple(
            Part(f"d_{name}", OpClass.NORMALIZATION, cost, cost, width, wrt=name) for name in self.vectors
        )

    def run(self, torch: Any, weights: dict[str, Any], a: Any, b: Any) -> Any:
        q1, k1, q2, k2 = (weights[name].float() for name in self.vectors)
        share = (q1 * k1).sum().exp() - (q2 * k2).sum().exp() + self.start
        return a - share.to(a.dtype) * b
