"""Write a sympy expression as numerator / denominator, both integers at all sizes."""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.wings.shapes.symbolic import required


class WholeFraction(NamedTuple):
    """An expression as `over` / `under`, both integers at all sizes: BigInts of JavaScript compute it."""

    over: Any
    under: Any


def quotient(expression: Any) -> WholeFraction:
    """The expression as a fraction of integers; sums over a common denominator."""
    unit = required("sympy").Integer(1)
    if expression.is_Rational:
        return WholeFraction(required("sympy").Integer(expression.p), required("sympy").Integer(expression.q))
    if expression.is_Symbol:
        return WholeFraction(expression, unit)
    read = READERS.get(type(expression).__name__)
    if read is None:
        raise ArchError(f"{type(expression).__name__} of {expression} has no exact code", "report this")
    result: WholeFraction = read(expression)
    return result


def _sum(expression: Any) -> WholeFraction:
    overs, under = _common([quotient(summand) for summand in expression.args])
    return WholeFraction(required("sympy").Add(*overs), under)


def _common(fractions: list[WholeFraction]) -> tuple[list[Any], Any]:
    """(numerators over a common denominator, that denominator)."""
    sympy = required("sympy")
    unders = dict.fromkeys(fraction.under for fraction in fractions)
    whole = all(under.is_Integer for under in unders)
    under = sympy.Integer(lcm(*map(int, unders))) if whole else sympy.Mul(*unders)
    return [fraction.over * sympy.cancel(under / fraction.under) for fraction in fractions], under


def _product(expression: Any) -> WholeFraction:
    mul, fractions = required("sympy").Mul, [quotient(factor) for factor in expression.args]
    return WholeFraction(mul(*(f.over for f in fractions)), mul(*(f.under for f in fractions)))


def _power(expression: Any) -> WholeFraction:
    base, exponent = expression.as_base_exp()
    if not exponent.is_Integer:
        raise ArchError(f"the power {expression} has no exact code", "report this")
    over, under = quotient(base)
    times = abs(int(exponent))
    return (
        WholeFraction(over**times, under**times) if exponent > 0 else WholeFraction(under**times, over**times)
    )


def _floor(expression: Any) -> WholeFraction:
    sympy = required("sympy")
    over, under = quotient(expression.args[0])
    return WholeFraction(over if under == 1 else sympy.Function("quotient")(over, under), sympy.Integer(1))


def _ceiling(expression: Any) -> WholeFraction:
    sympy = required("sympy")
    argument = expression.args[0]
    logarithm = sympy.log(2)
    # ceiling(log(n) / log(2)), as arith.ceil_log2 writes it
    if argument.has(sympy.log):
        power = (argument * logarithm).simplify()
        return WholeFraction(sympy.Function("binary")(power.args[0]), sympy.Integer(1))
    over, under = quotient(argument)
    if under == 1:
        return WholeFraction(over, under)
    return WholeFraction(sympy.Function("quotient")(over + under - 1, under), sympy.Integer(1))


def _extreme(expression: Any) -> WholeFraction:
    sympy = required("sympy")
    overs, under = _common([quotient(argument) for argument in expression.args])
    name = "least" if type(expression).__name__ == "Min" else "most"
    return WholeFraction(sympy.Function(name)(*overs), under)


def _remainder(expression: Any) -> WholeFraction:
    sympy = required("sympy")
    overs, under = _common([quotient(argument) for argument in expression.args])
    return WholeFraction(sympy.Function("remainder")(*overs), under)


def _whole(expression: Any) -> WholeFraction:
    """A function of bigint.js in the expression, which is an integer already."""
    return WholeFraction(expression, required("sympy").Integer(1))


READERS: Mapping[str, Any] = {
    "Add": _sum,
    "Mul": _product,
    "Pow": _power,
    "floor": _floor,
    "ceiling": _ceiling,
    "Min": _extreme,
    "Max": _extreme,
    "Mod": _remainder,
    "quotient": _whole,
    "ratio": _whole,
}
"""The reader of each kind of expression, by the name of its sympy class."""
