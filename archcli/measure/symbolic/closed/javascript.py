"""Closed forms as JavaScript on BigInt: exact at any size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.measure.symbolic import required
from archcli.measure.symbolic.closed.conditions import SizeCondition
from archcli.measure.symbolic.symbols import symbol

HELPERS = ("quotient", "remainder", "least", "most", "binary", "power")
"""Functions of the page's script (`bigint.js`) that printed code calls."""


class WholeFraction(NamedTuple):
    """An expression as a fraction whose numerator and denominator are whole numbers at all sizes."""

    over: Any
    under: Any


class Script(NamedTuple):
    """Code of several expressions: `steps` that they share, each computed once, and one function for each.

    A step's value is `s._0`, `s._1`, …; steps read those before them.
    """

    steps: tuple[str, ...]
    functions: tuple[str, ...]

    @property
    def code(self) -> str:
        """An object with both as functions of s: {steps: […], forms: […]}."""
        steps, forms = (",\n".join(f"s=>{code}" for code in codes) for codes in self)
        return f"{{steps:[{steps}],\nforms:[{forms}]}}"


def script(expressions: Sequence[Any]) -> Script:
    """The code of expressions. Roundings and minima, which many of them contain, are steps."""
    sympy = required("sympy")
    atoms: set[Any] = set()
    for expression in expressions:
        atoms |= expression.atoms(sympy.Min, sympy.Max, sympy.floor, sympy.ceiling)
    # a step is a whole number: a minimum of fractions is none, and rounding it would change the sum
    atoms = {atom for atom in atoms if quotient(atom).under == 1}
    # what lies within another is smaller: its step comes first
    ordered = sorted(atoms, key=lambda atom: (atom.count_ops(), sympy.default_sort_key(atom)))
    places: dict[Any, Any] = {}
    steps = []
    for atom in ordered:
        steps.append(javascript(type(atom)(*(part.xreplace(places) for part in atom.args), evaluate=False)))
        places[atom] = symbol(f"_{len(places)}")
    return Script(tuple(steps), tuple(javascript(expression.xreplace(places)) for expression in expressions))


def javascript(expression: Any) -> str:
    """The code of an expression; a size n is `s.n`. A figure that is a fraction is rounded, halves up."""
    sympy = required("sympy")
    over, under = quotient(sympy.sympify(expression))
    if under != 1:
        over = sympy.Function("quotient")(2 * over + under, 2 * under)
    text: str = _printer().doprint(over)
    return text.replace(" + ", "+").replace(" - ", "-").replace(", ", ",")


def condition(known: SizeCondition) -> str:
    """The code of a condition: true where it holds."""
    left, right = (quotient(required("sympy").sympify(side)) for side in (known.left, known.right))
    # both sides of whole numbers: no denominators
    sides = [_printer().doprint(side.over) for side in (left, right)]
    sign = {"==": "===", "!=": "!=="}.get(known.sign, known.sign)
    return f"({sides[0]}) {sign} ({sides[1]})"


def quotient(expression: Any) -> WholeFraction:
    """The expression as a fraction of whole numbers, sums over a common denominator."""
    one = required("sympy").Integer(1)
    if expression.is_Rational:
        return WholeFraction(required("sympy").Integer(expression.p), required("sympy").Integer(expression.q))
    if expression.is_Symbol:
        return WholeFraction(expression, one)
    read = READERS.get(type(expression).__name__)
    if read is None:
        raise ArchError(f"{type(expression).__name__} of {expression} has no exact code", "report this")
    result: WholeFraction = read(expression)
    return result


def _sum(expression: Any) -> WholeFraction:
    overs, under = _common([quotient(summand) for summand in expression.args])
    return WholeFraction(required("sympy").Add(*overs), under)


def _common(fractions: list[WholeFraction]) -> tuple[list[Any], Any]:
    """The numerators of fractions over one denominator, and that."""
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


READERS: Mapping[str, Any] = {
    "Add": _sum,
    "Mul": _product,
    "Pow": _power,
    "floor": _floor,
    "ceiling": _ceiling,
    "Min": _extreme,
    "Max": _extreme,
    "Mod": _remainder,
}
"""How each kind of expression is read, by the name of its class in sympy."""


def _printer() -> Any:
    """A printer of sympy whose integers are BigInt literals and whose symbols are fields of `s`."""
    from sympy.printing.str import StrPrinter

    class BigIntPrinter(StrPrinter):  # type: ignore[misc]
        """Whole expressions as JavaScript."""

        def _print_Integer(self, expr: Any) -> str:  # noqa: N802
            return f"{expr.p}n"

        def _print_int(self, expr: int) -> str:
            return f"{expr}n"

        def _print_Symbol(self, expr: Any) -> str:  # noqa: N802
            return f"s.{expr.name}"

        def _print_Pow(self, expr: Any, rational: bool = False) -> str:  # noqa: N802
            return f"power({self._print(expr.base)}, {self._print(expr.exp)})"

    return BigIntPrinter({"order": None})
