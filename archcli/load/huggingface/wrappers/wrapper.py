"""Wrapper: how the class of a wrapper holds its language model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from archcli.load.huggingface.wrappers.rules import Head, TieRule, plain


class Wrapper(NamedTuple):
    """How a wrapper's class holds its language model.

    `text` is the family of a text part that states no model_type; `any_text`: another one is allowed.
    `called` is that model_type where it is not the family's: a class of the same layers, with other
    defaults, whose positions in three axes are equal for text. `defaults` are sizes that the class fills in
    before those of the text part's own class. `partial`: it has sizes of its own where there is no text part,
    so that a file has to state one. `headed` are names of classes that have a head, and do not end as such
    names do.
    `left_out` are keys of the text part that are not read, each with a note of what is counted instead.
    """

    text: str
    tie: TieRule
    key: str = "text_config"
    head: Head = plain
    any_text: bool = True
    partial: bool = False
    defaults: Mapping[str, Any] = {}
    headed: tuple[str, ...] = ()
    left_out: Mapping[str, str] = {}
    called: str = ""

    @property
    def own_type(self) -> str:
        """The model_type of a text part that states none."""
        return self.called or self.text
