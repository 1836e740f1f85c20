"""Arithmetic of a layout that can be read twice: with numbers as an SVG, with symbols as a script.

What depends on a figure of the model (a width, a number of heads) is computed by +, -, *, / and these
functions alone, and never decides what is drawn: a `Traced` figure then writes the same steps in JavaScript.
"""

from __future__ import annotations

from math import floor as whole_below
from typing import Any


def most(*numbers: Any) -> Any:
    """The largest of some numbers."""
    return max(numbers)


def least(*numbers: Any) -> Any:
    """The smallest of some numbers."""
    return min(numbers)


def floor(number: Any) -> Any:
    """The largest whole number that is not above."""
    return whole_below(number)


def root(number: Any) -> Any:
    """The square root."""
    return number**0.5


def where(low: Any, high: Any, then: Any, other: Any) -> Any:
    """`then` where `low` is below `high`, else `other`."""
    return then if low < high else other
