"""Closed forms as JavaScript on BigInt: exact at any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic.closed.conditions import SizeCondition
from archcli.wings.shapes.symbolic.closed.fractions import quotient
from archcli.wings.shapes.symbolic.symbols import symbol


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


def _printer() -> Any:
    """A printer of sympy: integers as BigInt literals, symbols as fields of `s`."""
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
