"""Numbers that are computed later, when the sizes they depend on are known.

They go through a forward like any other `Number`, so that one trace answers for every context length.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from archcli.arith import Number


class Deferred:
    """A whole number that depends on sizes by name. Equal expressions are equal numbers."""

    __slots__ = ()

    def at(self, sizes: Mapping[str, int]) -> int:
        """Its value at these sizes."""
        raise NotImplementedError

    def __add__(self, other: Number) -> Deferred:
        return Operation(operator.add, self, other)

    def __radd__(self, other: Number) -> Deferred:
        return Operation(operator.add, other, self)

    def __sub__(self, other: Number) -> Deferred:
        return Operation(operator.sub, self, other)

    def __rsub__(self, other: Number) -> Deferred:
        return Operation(operator.sub, other, self)

    def __mul__(self, other: Number) -> Deferred:
        return Operation(operator.mul, self, other)

    def __rmul__(self, other: Number) -> Deferred:
        return Operation(operator.mul, other, self)

    def __floordiv__(self, other: Number) -> Deferred:
        return Operation(operator.floordiv, self, other)

    def __rfloordiv__(self, other: Number) -> Deferred:
        return Operation(operator.floordiv, other, self)

    def minimum(self, other: Number) -> Deferred:
        """The smaller of two numbers."""
        return Operation(min, self, other)


@dataclass(frozen=True, slots=True)
class Unknown(Deferred):
    """A size that is known later, by its name."""

    name: str

    def at(self, sizes: Mapping[str, int]) -> int:
        """The size of this name."""
        return sizes[self.name]


@dataclass(frozen=True, slots=True)
class Operation(Deferred):
    """An operation on two numbers, at least one of which is deferred."""

    compute: Callable[[Any, Any], int]
    left: Number
    right: Number

    def at(self, sizes: Mapping[str, int]) -> int:
        """The operation on the values of both numbers."""
        return self.compute(value_at(self.left, sizes), value_at(self.right, sizes))


def value_at(number: Number, sizes: Mapping[str, int]) -> int:
    """The value of a number that may be deferred."""
    value: int = number.at(sizes) if isinstance(number, Deferred) else number
    return value
