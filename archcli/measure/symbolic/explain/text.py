"""Formulas as text: in sympy's form, with the model's numbers put in, and as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from archcli.arith import rounded
from archcli.measure.symbolic import required


def figure(value: Any) -> int:
    """A value of an expression as an int; an expected value to the nearest."""
    exact = required("sympy").Rational(value)
    return int(rounded(Fraction(int(exact.p), int(exact.q))))


NAME = re.compile(r"\b[A-Za-z_]\w*\b")


def numbered(formula: str, values: Mapping[str, int]) -> str:
    """The same line with numbers in place of the names."""
    return NAME.sub(lambda match: str(values.get(match[0], match[0])), formula)


def latex(expression: Any, values: Mapping[str, int], *, numbers: bool = False) -> str:
    """The expression as LaTeX, with names or with the model's numbers."""
    sympy = required("sympy")
    names = {
        symbol: str(values[symbol.name]) if numbers else latex_name(symbol.name)
        for symbol in expression.free_symbols
    }
    sign = r" \cdot " if numbers else None
    text: str = sympy.latex(expression, symbol_names=names, mul_symbol=sign)
    return text


def latex_name(name: str) -> str:
    r"""A name as LaTeX: d_model is d_{\mathrm{model}}, vocab_size \mathrm{vocab\_size}."""
    first, _, rest = name.partition("_")
    if len(first) == 1 and rest:
        return rf"{first}_{{\mathrm{{{_words(rest)}}}}}"
    return rf"\mathrm{{{_words(name)}}}"


def _words(name: str) -> str:
    return name.replace("_", r"\_")
