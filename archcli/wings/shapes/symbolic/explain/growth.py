"""Growth of a total with one of its symbols, at the model's sizes (`explain --at`)."""

from __future__ import annotations

from typing import Any

from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic.symbols import ModelSymbols

Record = dict[str, Any]


def growth_of(total: Any, name: str, symbols: ModelSymbols) -> Record:
    """The growth of the total with the symbol of this name.

    derivative, at: d total / d symbol, and its value.
    elasticity: percent of growth of the total for one percent of the symbol.
    doubled: total at twice the size / total.
    powers: the share of the total with each power of the symbol; empty if it is no polynomial.
    """
    sympy = required("sympy")
    symbol = next(known for known in symbols.values if known.name == name)
    value, whole = symbols.values[symbol], symbols.value(total)
    derivative = sympy.factor_terms(sympy.diff(_smooth(total, symbol, symbols), symbol))
    slope = symbols.value(derivative)
    twice = symbols.value(total.xreplace({symbol: sympy.Integer(2 * value)}))
    return {
        "symbol": name,
        "value": value,
        "derivative": str(derivative),
        "at": float(slope),
        "elasticity": float(value * slope / whole) if whole else 0.0,
        "doubled": float(twice / whole) if whole else 1.0,
        "powers": _powers(total, symbol, symbols),
    }


def _smooth(total: Any, symbol: Any, symbols: ModelSymbols) -> Any:
    """The total without kinks: a minimum becomes its smaller argument, a floor its argument."""
    sympy = required("sympy")

    def branch(*numbers: Any) -> Any:
        # of two equal arguments the one that is smaller once the symbol grows
        return min(numbers, key=lambda n: (symbols.value(n), symbols.value(sympy.diff(n, symbol))))

    # sympy does not evaluate the derivative of a floor, and that of a minimum has Heaviside steps
    floorless = total.replace(sympy.floor, lambda inner: inner)
    return floorless.replace(sympy.Min, branch)


def _powers(total: Any, symbol: Any, symbols: ModelSymbols) -> list[Record]:
    """{power, share} of the total, the highest power first."""
    sympy = required("sympy")
    others = {known: sympy.Integer(n) for known, n in symbols.values.items() if known != symbol}
    polynomial = sympy.expand(total.xreplace(others))
    value, whole = symbols.values[symbol], symbols.value(total)
    if not whole or not polynomial.is_polynomial(symbol):
        return []
    terms = sympy.Poly(polynomial, symbol).terms()
    return [
        {"power": int(power), "share": float(factor * value**power / whole)} for (power,), factor in terms
    ]
