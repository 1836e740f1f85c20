"""Fourier: the real part of a discrete Fourier transform along tokens and channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, ceil_log2, prod
from archcli.graph import Op, Part
from archcli.ops.base import elementwise

PER_STAGE = 5
"""FLOPs of each element in each of log2 n stages of a fast transform of n numbers: 5 n log2 n in all."""


@dataclass(frozen=True, slots=True, eq=False)
class Fourier(Op):
    """y [B, T, D] = Re F_T(F_D(x)). FNet, arXiv:2105.03824 section 3.2.

    Counted as a fast transform, 5 n log2 n FLOPs for n complex numbers (Cooley & Tukey 1965), stages rounded
    up; not as matrix products.
    """

    keeps_nothing: ClassVar[bool] = True
    name: str

    def shape(self, x: Shape) -> Shape:
        return x

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (elementwise("transform", prod(x), transform_flops(1, x[1:])),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return torch.fft.fftn(x.float(), dim=(1, 2)).real.to(x.dtype)


def transform_flops(n: Number, lengths: Sequence[Number]) -> Number:
    """FLOPs of n complex numbers along axes of these lengths, whose log2 is rounded up."""
    return PER_STAGE * n * sum(ceil_log2(length) for length in lengths)
