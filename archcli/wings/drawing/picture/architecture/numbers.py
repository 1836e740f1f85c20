"""Arithmetic of a layout that is read twice: with numbers as an SVG, with traced numbers as a script.

What depends on a figure of the model (a width, a number of heads) is computed by +, -, *, / and these
functions, and decides nothing: a traced figure (`traced.py`) then writes the same steps in JavaScript.
"""

from __future__ import annotations

from math import floor as whole_below
from typing import Any

from archcli.render.values import short
from archcli.wings.drawing.picture.architecture.traced import call, is_traced, marked, plain


def most(*numbers: Any) -> Any:
    """The largest of some numbers."""
    return call("Math.max", max, *numbers)


def least(*numbers: Any) -> Any:
    """The smallest of some numbers."""
    return call("Math.min", min, *numbers)


def floor(number: Any) -> Any:
    """The largest whole number that is not above."""
    return call("Math.floor", whole_below, number)


def root(number: Any) -> Any:
    """The square root."""
    return call("Math.sqrt", lambda x: x**0.5, number)


def where(low: Any, high: Any, then: Any, otherwise: Any) -> Any:
    """`then` where `low` is below `high`, else `otherwise`."""
    return call("where", lambda a, b, c, d: c if a < b else d, low, high, then, otherwise)


def concrete(number: Any) -> float:
    """The number of this model, on which a decision may rest: how many rows, where a label stands."""
    return float(number) + 0.0  # a traced number's float is plain


def written(number: Any, unit: Any) -> str:
    """A figure as text: `whole` 7,168, `count` 671B, `bytes` 68.6 KiB, `flops`, `share`.

    Of a traced figure it is a mark in the text, which the script writes anew.
    """
    value = plain(number)
    text = (unit != "whole" and short(value, unit)) or f"{int(value):,}"
    return marked(number, f"written({{}},'{unit}')", text) if is_traced(number) else text
