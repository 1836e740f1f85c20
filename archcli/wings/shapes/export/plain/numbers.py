"""Numbers that carry their code: D_MODEL is the int 4096, and N_HEADS * HEAD_DIM is 4096 as well."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from archcli.arith import prod

BATCH, LENGTH, SOURCE = 1009, 1_048_583, 524_287
"""Sizes of the pass that is traced; tokens are more than any window."""
LARGEST = 100_000
"""The largest number that is no size of a pass and has no name."""
TURN = 2 * math.pi
SUM, PRODUCT, SIGN, POWER, ATOM = range(5)
"""How tightly code binds, from a sum to a name or a call."""


class Coded:
    """A number with the code that computes it. `factors` are the numbers whose product it is."""

    code: str
    rank: int
    factors: tuple[Any, ...]


class Whole(int, Coded):
    """A whole number with its code."""


class Real(float, Coded):
    """A real number with its code."""


def coded(number: float, code: str, rank: int = ATOM, factors: tuple[Any, ...] = ()) -> Any:
    """The number with its code."""
    kind: Any = Whole if isinstance(number, int) else Real
    result = kind(number)
    result.code, result.rank, result.factors = code, rank, factors or (result,)
    return result


def code_of(number: Any, rank: int = SUM) -> str:
    """The code of a number, in brackets where it binds less tightly than `rank`."""
    if number == TURN:
        return "2 * torch.pi" if rank <= PRODUCT else "(2 * torch.pi)"
    if not isinstance(number, Coded):
        if number and (number % BATCH == 0 or number > LARGEST):
            raise NotImplementedError("a size of the pass could not be told by the numbers of the model")
        return f"({number!r})" if number < 0 and rank > SIGN else repr(number)
    return f"({number.code})" if number.rank < rank else number.code


def plain(number: Any) -> Any:
    """The number without its code."""
    return int(number) if isinstance(number, int) else float(number)


NEUTRAL = {"+": 0, "-": 0, "*": 1, "/": 1, "//": 1, "**": 1}
"""The right operand that changes nothing."""


def combined(a: Any, b: Any, sign: str, compute: Callable[[Any, Any], Any], rank: int) -> Any:
    """The result of an operator on two numbers, with its code."""
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return NotImplemented
    if not isinstance(b, Coded) and plain(b) == NEUTRAL.get(sign):
        return a
    if sign in "+*" and not isinstance(a, Coded) and plain(a) == NEUTRAL[sign]:
        return b
    if sign == "//":
        a, b = reduced(a, b)
        if plain(b) == 1:
            return a
    number = compute(plain(a), plain(b))
    # the right operand of - and // binds more tightly; both of a power do
    left, right = (rank + 1, SIGN) if sign == "**" else (rank, rank if sign == "+" else rank + 1)
    code = f"{code_of(a, left)} {sign} {code_of(b, right)}"
    factors = tuple(f for n in (a, b) for f in factors_of(n)) if sign == "*" else ()
    return coded(number, code, rank, factors)


def factors_of(number: Any) -> tuple[Any, ...]:
    """The numbers whose product it is."""
    return number.factors if isinstance(number, Coded) else (number,)


def reduced(a: Any, b: Any) -> tuple[Any, Any]:
    """Numbers with the quotient of a and b, without the factors that both have."""
    above, below = list(factors_of(a)), []
    for factor in factors_of(b):
        at = next((i for i, f in enumerate(above) if code_of(f) == code_of(factor)), None)
        if at is None:
            below.append(factor)
        else:
            above.pop(at)
    return (a, b) if len(below) == len(factors_of(b)) else (prod(above), prod(below))


def _negated(a: Any) -> Any:
    return coded(-plain(a), f"-{code_of(a, SIGN)}", SIGN)


OPERATORS = {
    "add": ("+", operator.add, SUM),
    "sub": ("-", operator.sub, SUM),
    "mul": ("*", operator.mul, PRODUCT),
    "truediv": ("/", operator.truediv, PRODUCT),
    "floordiv": ("//", operator.floordiv, PRODUCT),
    "mod": ("%", operator.mod, PRODUCT),
    "pow": ("**", operator.pow, POWER),
}


def _define(name: str, sign: str, compute: Callable[[Any, Any], Any], rank: int) -> None:
    for kind in (Whole, Real):
        setattr(kind, f"__{name}__", lambda a, b: combined(a, b, sign, compute, rank))
        setattr(kind, f"__r{name}__", lambda b, a: combined(a, b, sign, compute, rank))
        kind.__neg__ = _negated  # type: ignore[method-assign]


for _name, _how in OPERATORS.items():
    _define(_name, *_how)
