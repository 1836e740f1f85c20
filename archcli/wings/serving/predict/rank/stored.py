"""Quantized matrices in predictions: products read fewer bits than they compute in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from archcli.arith import prod
from archcli.graph import OpClass, Row
from archcli.measure.weights.stored_bytes import WeightBits, stored
from archcli.modules import Model
from archcli.wings.serving.launches.kernel import KernelCost, KernelRun
from archcli.wings.serving.predict.constants import WIDTHS
from archcli.wings.serving.predict.times import GROUPED, PRODUCTS, kind_of, narrowed
from archcli.wings.serving.recorded.classes import TimeClass

BITS = 8


class StoredMatrix(NamedTuple):
    """A stored matrix: its elements with the bias, and the mean bytes of one with scales."""

    numbers: int
    width: Fraction


def reading_stored(
    kernels: Iterable[KernelRun], rows: Mapping[str, Row | None], model: Model, dtype: str, native: str = ""
) -> Iterator[KernelRun]:
    """The kernels; products read packed matrices, and unpack them in the kernel.

    native: the dtype in which products of packed matrices run; empty for their own.
    rows: by the path of kernels.
    """
    known = {row.path: row for row in rows.values() if row is not None}
    matrices = _matrices(model, known.values(), dtype)
    for run in kernels:
        row = rows.get(run.path)
        is_product = kind_of(run.op_class, run.kernel.name) == PRODUCTS
        if row is None or not is_product or row.path not in matrices:
            yield run
        else:
            kernel, matrix = run.kernel, matrices[row.path]
            if native and matrix.width < WIDTHS[kernel.dtype]:
                kernel = narrowed(kernel, native)
            yield run._replace(kernel=_reading(kernel, row, matrix))


def unpacking(
    kernels: Iterable[KernelRun], rows: Mapping[str, Row | None], model: Model, dtype: str
) -> Iterator[KernelRun]:
    """The kernels; before each product another writes its matrix in the dtype of the product.

    As bitsandbytes' `MatMul4Bit` does in forward and backward.
    """
    known = {row.path: row for row in rows.values() if row is not None}
    matrices = _matrices(model, known.values(), dtype)
    for run in kernels:
        row = rows.get(run.path)
        is_product = kind_of(run.op_class, run.kernel.name) == PRODUCTS
        if row is not None and is_product and row.path in matrices:
            matrix, many = matrices[row.path], _experts(run.kernel, row)
            if matrix.width < WIDTHS[run.kernel.dtype]:
                read, written = (
                    round(many * matrix.numbers * width) for width in (matrix.width, WIDTHS[run.kernel.dtype])
                )
                kernel = KernelCost("dequantize", 0, read, written, run.kernel.dtype)
                yield run._replace(kernel=kernel, op_class=TimeClass.ELEMENTWISE)
        yield run


def _matrices(model: Model, rows: Collection[Row], dtype: str) -> dict[str, StoredMatrix]:
    """The stored matrix of each row by path; a tied head has the embedding table."""
    storing = (row for row in rows if row.params)
    widths = {row.path: (row, _width(bits)) for row, bits in stored(model, storing, dtype)}
    tables = {row.weights["weight"]: width for row, width in widths.values() if "weight" in row.weights}
    matrices = {path: StoredMatrix(int(row.unit_params), width) for path, (row, width) in widths.items()}
    for row in rows:
        for shape in row.inputs if row.path not in matrices else ():
            if shape in tables:
                matrices[row.path] = StoredMatrix(int(prod(shape)), tables[shape])
    return matrices


def mean_width(model: Model, rows: Sequence[Row], dtype: str) -> float:
    """Mean bytes of an element, scales included, over the matrices that products read."""
    matrices = [row for row in rows if row.params and _is_product(row)]
    return float(_width(sum((bits for _, bits in stored(model, matrices, dtype)), start=WeightBits())))


def _is_product(row: Row) -> bool:
    return any(part.op_class is OpClass.CONTRACTION for part in row.parts)


def _width(bits: WeightBits) -> Fraction:
    """Bytes of an element, scales included."""
    return Fraction(bits.value_bits + bits.scale_bits, BITS * bits.params)


def _reading(kernel: KernelCost, row: Row, matrix: StoredMatrix) -> KernelCost:
    """A product that reads this matrix packed; of experts one, or all that get tokens."""
    unpacked = _experts(kernel, row) * matrix.numbers * float(Fraction(WIDTHS[kernel.dtype]) - matrix.width)
    return kernel._replace(read=kernel.read - round(unpacked))


def _experts(kernel: KernelCost, row: Row) -> float:
    """The number of matrices that the kernel reads: 1, or the experts that get tokens."""
    if row.experts is None or kernel.name != GROUPED:
        return 1.0
    # 2 FLOPs for each number of one expert's matrix and each token; a token reads one expert's at most
    tokens = kernel.flops // (2 * int(prod(row.weights["weight"])))
    return float(row.experts.reached(tokens))
