"""Arithmetic that means the same for Python ints, sympy expressions and numpy arrays.

Shapes and costs are written with `+ - * //` and these helpers only, so that one formula serves exact counts, closed
forms and sweeps. sympy and numpy are imported only when a number of theirs is already here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

Number: TypeAlias = Any
"""An int, a sympy expression or a numpy integer array."""

Shape: TypeAlias = tuple[Number, ...]


def prod(numbers: Iterable[Number]) -> Number:
    """The product of the numbers; 1 for none.

    Unlike `math.prod` it keeps the order, so symbols print as they were written.
    """
    result: Number = 1
    for number in numbers:
        result = result * number
    return result


def minimum(a: Number, b: Number) -> Number:
    """The smaller of two numbers, element by element."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return _library(a, b).minimum(a, b)


def maximum(a: Number, b: Number) -> Number:
    """The larger of two numbers, element by element."""
    return a + b - minimum(a, b)


def ceil_div(a: Number, b: Number) -> Number:
    """a / b rounded up."""
    return (a + b - 1) // b


def triangle(n: Number) -> Number:
    """1 + 2 + … + n."""
    return n * (n + 1) // 2


def label(index: Number) -> str:
    """How a layer's index reads in a path: a number, a formula without blanks, or `?` for an array of candidates."""
    return str(index).replace(" ", "") if getattr(index, "ndim", 0) == 0 else "?"


class _Sympy:
    @staticmethod
    def minimum(a: Number, b: Number) -> Number:
        from sympy import Min

        return Min(a, b)


def _library(*numbers: Number) -> Any:
    """The module whose `minimum` these numbers understand: numpy for arrays, sympy for symbols."""
    if any(hasattr(number, "free_symbols") for number in numbers):
        return _Sympy
    import numpy as np

    return np
