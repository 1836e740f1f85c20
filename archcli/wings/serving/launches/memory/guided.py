"""Guided: a formula with a value; code that compares sizes branches by the value.

Code that runs on a formula alone cannot branch: it is not known whether `seq_len` is 1. At the sizes of a
model it is known. So the formula that comes out holds for all sizes that take the same branches.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

from archcli.arith import is_symbolic

USUAL = 720_720
"""The value of a symbol without one: a size that many numbers divide."""


class Guided:
    """A whole number as a formula and its value: arithmetic is done with both, comparisons with the value."""

    __slots__ = ("formula", "value")

    def __init__(self, value: int, formula: Any) -> None:
        self.value, self.formula = value, formula

    decides = True
    """Code that branches on a size branches on its value."""

    def __floordiv__(self, divisor: Any) -> Any:
        return _quotient(self, divisor)

    def __rfloordiv__(self, number: Any) -> Any:
        return _quotient(number, self)

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        raise TypeError("a formula has no one number of steps")

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.value)  # a real number is no size: no formula of one is asked for

    def __neg__(self) -> Any:
        return Guided(-self.value, -self.formula)

    def bit_length(self) -> int:
        """Binary digits of the value."""
        return self.value.bit_length()


def _arithmetic(name: str) -> None:
    compute: Callable[[Any, Any], Any] = getattr(operator, name)

    def forward(self: Any, number: Any) -> Any:
        if not _is_number(number):
            return NotImplemented
        return Guided(compute(self.value, _value(number)), compute(self.formula, _formula(number)))

    def reflected(self: Any, number: Any) -> Any:
        return Guided(compute(_value(number), self.value), compute(_formula(number), self.formula))

    setattr(Guided, f"__{name}__", forward)
    setattr(Guided, f"__r{name}__", reflected)


def _real(name: str) -> None:
    compute: Callable[[Any, Any], float] = getattr(operator, name)

    def forward(self: Any, number: Any) -> Any:
        return compute(float(self), _value(number)) if _is_number(number) else NotImplemented

    setattr(Guided, f"__{name}__", forward)
    setattr(Guided, f"__r{name}__", lambda self, number: compute(_value(number), float(self)))


def _comparison(name: str) -> None:
    compare: Callable[[Any, Any], bool] = getattr(operator, name)
    setattr(Guided, f"__{name}__", lambda self, number: compare(self.value, _value(number)))


for _name in ("add", "sub", "mul", "mod"):
    _arithmetic(_name)
for _name in ("truediv", "pow"):
    _real(_name)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _comparison(_name)


def _quotient(a: Any, b: Any) -> Guided:
    """a // b; a division that comes out even is written without rounding."""
    whole, rest = divmod(_value(a), _value(b))
    return Guided(whole, _formula(a) // _formula(b) if rest else _formula(a) / _formula(b))


def _is_number(number: Any) -> bool:
    """Whether this is a number, or a formula: not a tensor, which knows how to be added to a number."""
    return isinstance(number, Guided | int | float | Fraction) or is_symbolic(number)


def _value(number: Any) -> Any:
    return number.value if type(number) is Guided else number


def _formula(number: Any) -> Any:
    return number.formula if type(number) is Guided else number


def guided(tree: Any, values: Mapping[Any, int]) -> Any:
    """The tree with every formula guided by the values of its symbols, in tuples and records, too."""
    if is_symbolic(tree):
        at = {symbol: values.get(symbol, USUAL) for symbol in tree.free_symbols}
        return Guided(int(tree.xreplace(at)), tree)
    if isinstance(tree, tuple):
        items = [guided(item, values) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if is_dataclass(tree) and not isinstance(tree, type):
        changes = {f.name: guided(getattr(tree, f.name), values) for f in fields(tree) if f.init}
        return replace(tree, **changes)
    return tree


def formulas(tree: Any) -> Any:
    """The tree with every guided number as its formula, in tuples."""
    if isinstance(tree, tuple):
        items = [formulas(item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    return _formula(tree)
