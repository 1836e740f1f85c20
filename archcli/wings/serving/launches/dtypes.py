"""Number types of tensors without values, by torch's names, and which type a result has."""

from __future__ import annotations

from typing import NamedTuple

from archcli.arith import is_whole

BOOLEAN, WHOLE, REAL, COMPLEX = range(4)
"""Kinds of number types, each of which gives way to the next."""


class DType(NamedTuple):
    """A number type: archcli's name of it, its kind, and the bytes of an element."""

    name: str
    kind: int
    itemsize: int

    @property
    def is_floating_point(self) -> bool:
        """Whether its numbers have fractions."""
        return self.kind == REAL

    @property
    def parts(self) -> str:
        """The name of the type of complex numbers' parts; of others their own."""
        return {"complex64": "fp32", "complex128": "fp64"}.get(self.name, self.name)


NAMED = {
    "bool": DType("bool", BOOLEAN, 1),
    "uint8": DType("uint8", WHOLE, 1),
    "int32": DType("int32", WHOLE, 4),
    "int64": DType("int64", WHOLE, 8),
    "long": DType("int64", WHOLE, 8),
    "float16": DType("fp16", REAL, 2),
    "bfloat16": DType("bf16", REAL, 2),
    "float32": DType("fp32", REAL, 4),
    "float": DType("fp32", REAL, 4),
    "float64": DType("fp64", REAL, 8),
    "double": DType("fp64", REAL, 8),
    "complex64": DType("complex64", COMPLEX, 8),
    "complex128": DType("complex128", COMPLEX, 16),
}
"""Number types by torch's names."""
FP32, INT32, INT64, BOOL = NAMED["float32"], NAMED["int32"], NAMED["int64"], NAMED["bool"]
BY_NAME = {dtype.name: dtype for dtype in NAMED.values()}


def promoted(a: DType, b: DType) -> DType:
    """The type of a result of two: the kind that comes later, else the wider one; fp32 of fp16 and bf16."""
    if a == b:
        return a
    if a.kind != b.kind:
        return a if a.kind > b.kind else b
    if a.itemsize == b.itemsize:
        return FP32
    return a if a.itemsize > b.itemsize else b


def of_number(number: complex) -> DType:
    """The type of a Python number."""
    if isinstance(number, bool):
        return BOOL
    if is_whole(number):
        return INT64
    return NAMED["complex64"] if isinstance(number, complex) else FP32
