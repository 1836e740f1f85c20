"""Recurrent: the base of mixers whose states have one size, whatever the number of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

from archcli.arith import Number
from archcli.modules.attention.mixer import RECURRENT, Mixer, MixerFacts, RecurrenceFacts
from archcli.modules.spec.request import SCAN, Forms


class Recurrent(Mixer):
    """A mixer that carries states of one size from token to token.

    `form` chunked computes chunks of tokens at once, recurrent token by token: equal results, other FLOPs.
    auto is recurrent where a token is decoded, and chunked elsewhere; a built model that serves every phase
    goes by the number of tokens of each call.
    """

    group: ClassVar[str] = "recurrent"
    forms: ClassVar[Forms | None] = SCAN
    form: Literal["auto", "chunked", "recurrent"] = "auto"

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """The facts of a recurrence: no scores, no position."""
        return replace(super().facts(d_model), pattern=RECURRENT, recurrence=self.recurrence(d_model))

    def joined_rows(self) -> Mapping[str, tuple[Number, ...]]:
        """Rows of the pieces that one weight joins, by the name of its op: each is split among ranks."""
        return {}

    def recurrence(self, d_model: Number | None = None) -> RecurrenceFacts:
        """The sizes of its state. Those that depend on d_model need it given."""
        return RecurrenceFacts()
