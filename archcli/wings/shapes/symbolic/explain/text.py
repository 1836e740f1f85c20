"""Formulas as text: with the model's numbers put in, as LaTeX, and step by step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from archcli.arith import rounded
from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic.explain.components import Component
from archcli.wings.shapes.symbolic.explain.terms import Term
from archcli.wings.shapes.symbolic.symbols import ModelSymbols


def figure(value: Any) -> int:
    """A value as an int: an expected value, such as experts reached, is rounded to the nearest."""
    exact = required("sympy").Rational(value)
    # `rounded`, as for counts: halves go up, which `round` takes to the even neighbour
    return int(rounded(Fraction(int(exact.p), int(exact.q))))


NAME = re.compile(r"\b[A-Za-z_]\w*\b")


def numbered(formula: str, values: Mapping[str, int]) -> str:
    """A formula with numbers in place of the names."""
    # Min and floor are names without a value, and stay
    return NAME.sub(lambda match: str(values.get(match[0], match[0])), formula)


def latex(expression: Any, values: Mapping[str, int], *, numbers: bool = False) -> str:
    """The expression as LaTeX, with names or with the model's numbers."""
    sympy = required("sympy")
    names = {
        symbol: str(values[symbol.name]) if numbers else latex_name(symbol.name)
        for symbol in expression.free_symbols
    }
    # numbers side by side would read as one
    sign = r" \cdot " if numbers else None
    text: str = sympy.latex(expression, symbol_names=names, mul_symbol=sign)
    return text


def latex_name(name: str) -> str:
    r"""A name as LaTeX: d_model is d_{\mathrm{model}}, vocab_size \mathrm{vocab\_size}."""
    first, _, rest = name.partition("_")
    if len(first) == 1 and rest:
        return rf"{first}_{{\mathrm{{{_escaped(rest)}}}}}"
    return rf"\mathrm{{{_escaped(name)}}}"


def _escaped(name: str) -> str:
    return name.replace("_", r"\_")


Line = dict[str, Any]


def steps_of(component: Component, symbols: ModelSymbols, textbook: Line | None) -> list[Line]:
    """The lines of a component: {step, formula, numbers, value}.

    First the textbook's form, if there is one; then each operation, their sum in one place, and all places.
    """
    places = list(component.bodies)
    lines = [] if textbook is None else [textbook]
    totals: list[Line] = []
    for times, pairs in _by_times(component).items():
        lines += _place(pairs, symbols)
        where = "layer" if component.layers else "place"
        body = lines[-1]
        known = places[len(totals)] if len(places) > len(totals) else symbols.tidied(times)
        if known != 1:
            lines.append(_times(f"in every {where}", known, body, symbols))
        totals.append(lines[-1])
    if len(totals) > 1:
        lines.append(_sum("together", totals))
    return lines


def _by_times(component: Component) -> dict[Any, list[tuple[str, Term]]]:
    """(path below the layer, term) by the number of places."""
    pairs: dict[Any, list[tuple[str, Term]]] = {}
    for step, term in zip(component.steps, component.terms, strict=True):
        pairs.setdefault(required("sympy").sympify(term.times), []).append((step, term))
    return pairs


def _place(pairs: list[tuple[str, Term]], symbols: ModelSymbols) -> Iterator[Line]:
    """The lines of one place: its operations, of routed experts one and all of them, and the sum."""
    by_experts: dict[Any, list[tuple[str, Term]]] = {}
    for step, term in pairs:
        by_experts.setdefault(term.experts, []).append((step, term))
    sums: list[Line] = []
    for experts, terms in by_experts.items():
        lines = [_line(step, term, symbols) for step, term in terms]
        yield from lines
        last = lines[0]
        if len(lines) > 1:
            last = _sum("one expert" if experts != 1 else "sum", lines)
            yield last
        if experts != 1:
            last = _times("all experts", symbols.tidied(experts), last, symbols)
            yield last
        sums.append(last)
    if len(sums) > 1:
        yield _sum("sum", sums)


def _line(step: str, term: Term, symbols: ModelSymbols) -> Line:
    """The line of one operation."""
    body = required("sympy").factor_terms(symbols.tidied(term.unit))
    name = term.name.removeprefix("forward ")
    return line(step if name == term.heading else f"{step} {name}", body, symbols)


def line(step: str, expression: Any, symbols: ModelSymbols) -> Line:
    """A line: an expression, the same with numbers, and its value."""
    text = str(expression)
    numbers = numbered(text, names(symbols))
    return {"step": step, "formula": text, "numbers": numbers, "value": figure(symbols.value(expression))}


def _sum(step: str, lines: list[Line]) -> Line:
    values = [summand["value"] for summand in lines]
    return {"step": step, "formula": "", "numbers": " + ".join(map(str, values)), "value": sum(values)}


def _times(step: str, times: Any, body: Line, symbols: ModelSymbols) -> Line:
    """The line of another one times a number."""
    number = figure(symbols.value(times))
    numbers = f"{number}*{body['value']}"
    return {"step": step, "formula": f"x {times}", "numbers": numbers, "value": number * body["value"]}


def names(symbols: ModelSymbols) -> Mapping[str, int]:
    """The values of the symbols by name."""
    return {symbol.name: value for symbol, value in symbols.values.items()}
