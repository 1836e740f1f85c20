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


class StateContent(StrEnum):
    """What a state holds."""

    KEYS_VALUES = "keys and values"
    LATENT = "latent"
    """What keys and values are rebuilt from, and the rotary key beside it."""
    INDEX_KEYS = "index keys"
    """Keys by which sparse attention chooses the tokens it reads."""
    CONVOLUTION = "convolution"
    """The last inputs of a convolution or of a token shift."""
    RECURRENT = "recurrent state"
    """Sums that every token updates; transformers keeps them in fp32."""


@dataclass(frozen=True, slots=True)
class State:
    """What one execution of an operation leaves in the cache.

    `elements` are those of the whole batch. `tokens` is for how many tokens there is an entry, None for a
    fixed state. `content` left out is the recurrent state of a fixed size, else keys and values.
    """

    elements: Number
    kind: StateKind
    tokens: Number = None
    content: StateContent | None = None

    @property
    def holds(self) -> StateContent:
        """What it holds: the stated content, or that of its kind."""
        of_kind = StateContent.RECURRENT if self.kind is StateKind.FIXED else StateContent.KEYS_VALUES
        return self.content or of_kind
