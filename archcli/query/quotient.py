"""Exact numbers: numerator and denominator apart, for one candidate or for arrays of them.

Nothing wraps around: int64 arrays become arrays of Python's ints where a result could leave 64 bits. Figures
that are real numbers, such as seconds, stay floats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import add, floordiv, mul, truediv
from typing import Any

from archcli.arith import Number, common_divisor, dimensions, maximum
from archcli.errors import ArchError

# int64 of numpy holds numbers below it; larger ones need arrays of Python ints
LIMIT = 2**63
# 2**1000 is about 1e301, so that every number still fits into a float
MOST_BITS = 1000
"""Numbers of more binary digits are refused: no figure of an architecture is that large."""


@dataclass(frozen=True, slots=True, eq=False)
class Quotient:
    """The number over / under, with under > 0: ints, or int64 or object arrays [N] of N candidates.

    A real number is a float, or a float64 array [N], over 1. Arithmetic raises ZeroDivisionError where a
    divisor is 0 for any candidate, and ArchError where a result is absurdly large.
    """

    over: Number
    under: Number = 1

    @property
    def is_real(self) -> bool:
        """Whether this is a float or an array of floats."""
        return isinstance(self.over, float) or _kind(self.over) == "f"

    def __add__(self, operand: Quotient) -> Quotient:
        a, b = _alike(self, operand)
        # an equal denominator is kept: products of them would soon leave 64 bits
        if _same(a.under, b.under):
            return _reduced(_sum(a.over, b.over), a.under)
        over = _sum(_product(a.over, b.under), _product(b.over, a.under))
        return _reduced(over, _product(a.under, b.under))

    def __neg__(self) -> Quotient:
        return Quotient(_product(self.over, -1), self.under)

    def __sub__(self, operand: Quotient) -> Quotient:
        return self + -operand

    def __mul__(self, operand: Quotient) -> Quotient:
        a, b = _alike(self, operand)
        return _reduced(_product(a.over, b.over), _product(a.under, b.under))

    def __truediv__(self, operand: Quotient) -> Quotient:
        a, b = _alike(self, operand)
        if _any(b.over == 0):
            raise ZeroDivisionError
        if a.is_real:
            most = _extent(a.over) * _extent(1.0 / b.over)
            return Quotient(_computed(most, a.over, b.over, truediv))
        # the denominator stays above 0
        sign = 1 - 2 * (b.over < 0) if _any(b.over < 0) else 1
        over, under = _product(a.over, b.under), _product(a.under, b.over)
        return _reduced(_product(over, sign), _product(under, sign))

    def __floordiv__(self, operand: Quotient) -> Quotient:
        quotient = self / operand
        if quotient.is_real:
            return Quotient(quotient.over // 1)
        return Quotient(_floored(quotient.over, quotient.under))

    def nearest(self, multiple: Quotient) -> Quotient:
        """The nearest multiple of a whole number, halves upwards, at least one multiple.

        Raises ArchError where that is no whole number above 0, or this is a real number.
        """
        if self.is_real:
            raise ArchError("@ rounds exact numbers, and this is a real one")
        if not multiple.is_whole or _any(multiple.over < 1):
            raise ArchError("@ rounds to multiples of a whole number above 0", "write EXPRESSION@128")
        step = _product(_product(self.under, multiple.over), 2)
        # floor(x / m + 1/2) in whole numbers: halves go upwards
        times = _floored(_sum(_product(self.over, 2), _product(self.under, multiple.over)), step)
        return Quotient(_product(maximum(times, 1), multiple.over))

    @property
    def is_whole(self) -> bool:
        """Whether every candidate's number is whole; real numbers are not."""
        if self.is_real or _is_one(self.under):
            return not self.is_real
        return not _any(self.over != _product(_floored(self.over, self.under), self.under))

    def number(self) -> Number:
        """The number itself.

        An int or a Fraction; of many candidates an int64 array where all are whole (of Python's ints beyond
        64 bits), else a float64 array.
        """
        if self.is_real:
            return self.over
        if self.is_whole:
            return _narrow(_floored(self.over, self.under))
        return self.real() if _is_array(self.over, self.under) else self.fraction()

    def real(self) -> Number:
        """The number as a float or a float64 array."""
        if self.is_real:
            return self.over
        real = _computed(_larger(self.over, self.under), self.over, self.under, truediv)
        return real.astype("float64") if _kind(real) == "O" else real

    def fraction(self) -> Number:
        """The number of one candidate as a Fraction."""
        from fractions import Fraction

        return Fraction(self.over, self.under)


def quotient(number: Number) -> Quotient:
    """A Quotient of an int, a Fraction, a float, or an array of ints, of Fractions or of floats.

    Raises TypeError for anything else.
    """
    # numpy's scalars wrap around at 64 bits, Python's numbers do not
    if dimensions(number) == 0 and hasattr(number, "item"):
        number = number.item()
    kind = _kind(number)
    if kind == "f":
        return Quotient(number.astype("float64"))
    if kind == "O":
        return Quotient(*(_parts(number, part) for part in ("numerator", "denominator")))
    # numpy makes float64 of uint64 and int64 together
    if kind == "u":
        return Quotient(_narrow(number.astype(object)))
    if kind and kind in "ib":
        return Quotient(number.astype("int64", copy=False))
    if isinstance(number, float):
        return Quotient(number)
    return Quotient(int(number.numerator), int(number.denominator)) if _is_exact(number) else _refuse(number)


def compared(a: Quotient, b: Quotient) -> tuple[Number, Number]:
    """Two numbers that compare as these do: exact ones are multiplied by each other's denominator."""
    a, b = _alike(a, b)
    return _product(a.over, b.under), _product(b.over, a.under)


def _is_exact(number: Any) -> bool:
    return hasattr(number, "numerator") and hasattr(number, "denominator")


def _refuse(number: Any) -> Quotient:
    raise TypeError(f"{type(number).__name__} is no number")


def _kind(number: Any) -> str:
    """numpy's letter for the type of an array; empty for a plain number."""
    kind: str = number.dtype.kind if hasattr(number, "dtype") else ""
    return kind


def _is_array(*numbers: Any) -> bool:
    return any(_kind(number) for number in numbers)


def _any(answers: Any) -> bool:
    return bool(answers.any()) if hasattr(answers, "any") else bool(answers)


def _same(a: Any, b: Any) -> bool:
    """Whether two denominators are known to be equal without looking at every candidate."""
    # arrays are compared by identity: comparing their values costs as much as multiplying
    return a is b or (not _is_array(a, b) and bool(a == b))


def _parts(array: Any, part: str) -> Any:
    """The numerators or denominators of an array of Python's numbers."""
    parts = array.copy()
    for i, number in enumerate(array):
        parts[i] = int(getattr(number, part))
    return _narrow(parts)


def _alike(a: Quotient, b: Quotient) -> tuple[Quotient, Quotient]:
    """Both exact, or both real."""
    return (Quotient(a.real()), Quotient(b.real())) if a.is_real or b.is_real else (a, b)


def _extent(number: Any) -> Any:
    """The largest absolute value, of all candidates."""
    if not _kind(number):
        return abs(number)
    if not number.size:
        return 0
    low, high = number.min(), number.max()
    # as Python's ints: abs(-2**63) is -2**63 in int64
    return max(abs(n.item() if hasattr(n, "item") else n) for n in (low, high))


def _product(a: Any, b: Any) -> Any:
    if _is_one(b):
        return a
    if _is_one(a):
        return b
    return _computed(max(_larger(a, b), _extent(a) * _extent(b)), a, b, mul)


def _is_one(number: Any) -> bool:
    # isinstance first, as an array == 1 is an array
    return isinstance(number, int) and number == 1


def _sum(a: Any, b: Any) -> Any:
    return _computed(_extent(a) + _extent(b), a, b, add)


def _floored(a: Any, b: Any) -> Any:
    """a / b rounded down."""
    return a if _is_one(b) else _computed(_larger(a, b), a, b, floordiv)


def _larger(a: Any, b: Any) -> Any:
    return max(_extent(a), _extent(b))


def _computed(most: Any, a: Any, b: Any, compute: Callable[[Any, Any], Any]) -> Any:
    """The result of an operation, at most `most`; of arrays in Python's ints where 64 bits do not hold it."""
    # `most` is one of Python's numbers, which cannot wrap around where arrays would
    if most >= 1 << MOST_BITS:
        raise ArchError("a number comes to more than 1e300")
    if isinstance(most, int) and most >= LIMIT:
        a, b = (n.astype(object) if _kind(n) == "i" else n for n in (a, b))
    return compute(a, b)


def _reduced(over: Any, under: Any) -> Quotient:
    """The quotient in lowest terms, unless its parts are small arrays already."""
    if _is_one(under) or (_is_array(over, under) and "O" not in (_kind(over), _kind(under))):
        return Quotient(over, under)
    shared = common_divisor(over, under)
    return Quotient(_narrow(over // shared), _narrow(under // shared))


def _narrow(number: Any) -> Any:
    """An array of Python's ints as int64 where they fit."""
    return number.astype("int64") if _kind(number) == "O" and _extent(number) < LIMIT else number
