"""Guided: a formula with a value, so that code with branches can compute formulas.

With a symbol alone code cannot branch: is `seq_len` 1? Its value decides. The resulting formula holds for all
sizes that take the same branches.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

from archcli.arith import is_symbolic

USUAL = 720_720
"""The value of a symbol without one: 720,720 is divisible by all numbers up to 16."""


class Guided:
    """An integer as formula and value: arithmetic uses both, comparisons use the value."""

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
        # a real number is no size: its formula is not needed
        return float(self.value)

    def __neg__(self) -> Any:
        return Guided(-self.value, -self.formula)

    def bit_length(self) -> int:
        """Binary digits of the value."""
        return self.value.bit_length()


def _arithmetic(name: str) -> None:
    """Define an operator on formula and value, and its reflected form."""
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
    """Define an operator that returns a float of the value."""
    compute: Callable[[Any, Any], float] = getattr(operator, name)

    def forward(self: Any, number: Any) -> Any:
        return compute(float(self), _value(number)) if _is_number(number) else NotImplemented

    setattr(Guided, f"__{name}__", forward)
    setattr(Guided, f"__r{name}__", lambda self, number: compute(_value(number), float(self)))


def _comparison(name: str) -> None:
    """Define a comparison of the value."""
    compare: Callable[[Any, Any], bool] = getattr(operator, name)
    setattr(Guided, f"__{name}__", lambda self, number: compare(self.value, _value(number)))


for _name in ("add", "sub", "mul", "mod"):
    _arithmetic(_name)
for _name in ("truediv", "pow"):
    _real(_name)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _comparison(_name)


def _quotient(a: Any, b: Any) -> Guided:
    """a // b; the formula of a division without remainder is a / b, without floor."""
    whole, rest = divmod(_value(a), _value(b))
    return Guided(whole, _formula(a) // _formula(b) if rest else _formula(a) / _formula(b))


def _is_number(number: Any) -> bool:
    """Whether this is a number or a formula; a tensor has its own operators."""
    return isinstance(number, Guided | int | float | Fraction) or is_symbolic(number)


def _value(number: Any) -> Any:
    return number.value if type(number) is Guided else number


def _formula(number: Any) -> Any:
    return number.formula if type(number) is Guided else number


def guided(tree: Any, values: Mapping[Any, int]) -> Any:
    """Replace each formula of a tree of tuples and records by a `Guided` with the values of its symbols."""
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
    """Replace each `Guided` of a tree of tuples by its formula."""
    if isinstance(tree, tuple):
        items = [formulas(item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    return _formula(tree)
