"""States: cached tensors of an operation, and how their size depends on the tokens."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from archcli.arith import Number


class StateKind(StrEnum):
    """How the size of a state depends on the number of tokens seen."""

    TOKENS = "tokens"
    """An entry for every token."""
    WINDOW = "window"
    """An entry for every token, up to a bound."""
    FIXED = "fixed"
    """Constant: running sums, the state of a recurrence, the last inputs of a convolution."""
    SOURCE = "source"
    """An entry for every position of an encoder's output, made once."""


@dataclass(frozen=True, slots=True)
class State:
    """What one execution of an operation leaves in the cache.

    `elements` are those of the whole batch. `tokens` is for how many tokens there is an entry, None for a
    fixed state.
    """

    elements: Number
    kind: StateKind
    tokens: Number = None
