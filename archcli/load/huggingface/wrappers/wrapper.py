"""Wrapper: how the class of a wrapper holds its language model; TextClass: what its text part is like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from archcli.load.huggingface.value import Mapped
from archcli.load.huggingface.wrappers.rules import Head, TieRule, plain


class Wrapper(NamedTuple):
    """How a wrapper's class holds its language model.

    `text` is the model_type of a text part that states none; `any_text`: another one is allowed. `defaults`
    are sizes that the class fills in before those of the text part's own class. `partial`: it has sizes of
    its own where there is no text part, so that a file has to state one. `headed` are names of classes that
    have a head, and do not end as such names do.
    `head_sizes` are the defaults of the whole file's keys by which an untied head is made.
    `left_out` are keys that are not read, of the text part or of a part that its class makes even where the
    file states none, each with a note of what is counted.
    `taken` are keys of the text part that the class sets to what another part states, whatever the text part
    says: the part, its key and the default there.
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
    head_sizes: Mapping[str, int] = {}
    taken: Mapping[str, tuple[str, str, int]] = {}


class TextClass(NamedTuple):
    """The class of a text part whose layers are those of a family, with other defaults.

    Its positions in three axes are equal for text. `fixed` is what it does whatever a file says, `synonyms`
    are second words for keys.
    """

    family: str
    defaults: Mapping[str, Any] = {}
    fixed: Mapping[str, Any] = {}
    synonyms: Mapping[str, str] = {}

    def as_family(self, stated: Mapping[str, Any]) -> Mapped:
        """The text part as a config.json of the family."""
        stated = {self.synonyms.get(key, key): value for key, value in stated.items()}
        data = {**self.defaults, **stated, **self.fixed, "model_type": self.family}
        return data | _in_one_axis(data)


def _in_one_axis(data: Mapping[str, Any]) -> Mapped:
    """Three-axis RoPE (mrope) rewritten as plain RoPE: for text the three positions are equal."""
    scaling = data.get("rope_scaling")
    if not isinstance(scaling, dict) or scaling.get("rope_type", scaling.get("type")) != "mrope":
        return {}
    return {"rope_scaling": {**scaling, "rope_type": "default"}}
