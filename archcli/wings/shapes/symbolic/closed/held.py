"""Held: bytes of cached elements as closed forms."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from archcli.graph import State, StateContent
from archcli.measure.kvcache.cache_size import CacheDtypes
from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic.closed.fractions import quotient
from archcli.wings.shapes.symbolic.symbols import symbol


def growth_of(state: State, batch_size: Any) -> Any:
    """Elements that each token of a sequence adds to a state."""
    if state.entry is not None:
        return state.entry // state.shared_by
    return state.elements / (batch_size * state.tokens)


def bytes_held(dtypes: CacheDtypes, contents: Mapping[StateContent, Any]) -> Any:
    """Bytes of this many elements, with `quotient(a, b)` in the place of a / b rounded down.

    sympy looks for whole parts in every floor of a sum: of a symbol that is done at once, of all summands
    it takes longer than the trace.
    """
    numbers = {_elements(content): required("sympy").sympify(n) for content, n in contents.items()}
    return _of_elements(dtypes, tuple(contents)).xreplace(numbers)


@cache
def _of_elements(dtypes: CacheDtypes, contents: tuple[StateContent, ...]) -> Any:
    """Bytes of a symbol's number of elements of each content."""
    sympy = required("sympy")
    size = sympy.sympify(dtypes.bytes_of({content: _elements(content) for content in contents}))
    return size.replace(sympy.floor, lambda inner: sympy.Function("quotient")(*quotient(inner)))


def _elements(content: StateContent) -> Any:
    return symbol(f"elements/{content.value}")
