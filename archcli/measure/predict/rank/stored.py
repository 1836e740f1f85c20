"""Matrices that are stored in fewer bits than products compute in, and what kernels read less of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from archcli.arith import prod
from archcli.graph import OpClass, Row
from archcli.kernels import KernelCost
from archcli.measure.predict.rank.kernel import RankKernel
from archcli.measure.predict.rates import WIDTHS
from archcli.measure.predict.times import PRODUCTS, kind_of
from archcli.measure.weights.stored_bytes import WeightBits, stored
from archcli.modules import Model

GROUPED = "_grouped_mm"
"""The kernel of all routed experts, which reads the matrices of those that a token goes to."""
BITS = 8


def reading_stored(
    kernels: Iterable[RankKernel], rows: Mapping[str, Row | None], model: Model, dtype: str
) -> Iterator[RankKernel]:
    """The kernels; products read their matrices as they are stored, and unpack them on the way.

    `rows` are by the path of the kernels.
    """
    storing = {row.path: row for row in rows.values() if row is not None and row.params}
    widths = {row.path: _width(bits) for row, bits in stored(model, storing.values(), dtype)}
    for one in kernels:
        row = rows.get(one.path)
        is_product = kind_of(one.op_class, one.kernel.name) == PRODUCTS
        if row is None or not is_product or row.path not in widths:
            yield one
        else:
            yield one._replace(kernel=_reading(one.kernel, row, widths[row.path]))


def mean_width(model: Model, rows: Sequence[Row], dtype: str) -> float:
    """Bytes of a stored number, scales included: the mean over the matrices that products read."""
    matrices = [row for row in rows if row.params and _is_product(row)]
    return float(_width(sum((bits for _, bits in stored(model, matrices, dtype)), start=WeightBits())))


def _is_product(row: Row) -> bool:
    return any(part.op_class is OpClass.CONTRACTION for part in row.parts)


def _width(bits: WeightBits) -> Fraction:
    """Bytes of a number, scales included."""
    return Fraction(bits.value_bits + bits.scale_bits, BITS * bits.params)


def _reading(kernel: KernelCost, row: Row, width: Fraction) -> KernelCost:
    """A product whose matrix has numbers of this width; one expert's, or those that tokens go to."""
    matrices = 1
    if row.experts is not None and kernel.name == GROUPED:
        tokens = kernel.flops // (2 * int(prod(row.weights["weight"])))
        matrices = min(tokens, int(row.experts.n_experts))
    unpacked = matrices * int(row.unit_params) * (Fraction(WIDTHS[kernel.dtype]) - width)
    return kernel._replace(read=kernel.read - round(unpacked))
