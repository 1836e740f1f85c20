"""Wrapper: how the class of a wrapper holds its language model, ties it, and gives it a head."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.family import TowerRow

TIE = "tie_word_embeddings"

TieRule = Callable[[Config], ConfigValue[bool] | None]
"""The tie that a whole file states; None where the text part's own holds."""

Head = Callable[[Mapped | None], Mapped | None]
"""The head of the wrapper's class, made of the head of the text part's causal language model."""


def of_whole(default: bool) -> TieRule:
    """The whole file's tie_word_embeddings, whatever the text part says."""
    return lambda whole: whole.nullable_flag(TIE, default=default)


def of_text(whole: Config) -> None:
    """The text part's tie_word_embeddings, whatever the whole file says."""
    whole.ignore(TIE)


def either(default: bool) -> TieRule:
    """Tied where the whole file says so or the text part does."""
    return lambda whole: whole.flag(TIE, default=default) or None


def of_first(whole: Config) -> ConfigValue[bool] | None:
    """The whole file's tie_word_embeddings where it states one, else the text part's."""
    return whole.flag(TIE) if whole.get(TIE, default=None) is not None else None


def never(whole: Config) -> ConfigValue[bool]:
    """Untied, whatever the file says: the class names no tied weights."""
    whole.ignore(TIE)
    return ConfigValue(False, whole.places.start)


def halves(whole: Config) -> ConfigValue[bool]:
    """Tied; where either part says otherwise, the tables of an encoder and a decoder come apart."""
    tie, text = whole.flag(TIE, default=True), whole.get("text_config", default={})
    if not tie or (isinstance(text, dict) and text.get(TIE, True) is not True):
        raise whole.error("tie_word_embeddings other than true is not supported here", at=whole.place(TIE))
    return tie


TIED, UNTIED = of_whole(default=True), of_whole(default=False)
EITHER = either(default=False)


def plain(head: Mapped | None) -> None:
    """An output head without a bias, a scale or a cap."""


def capped(head: Mapped | None) -> Mapped | None:
    """An output head with the text part's cap on logits."""
    return {"softcap": head["softcap"]} if head and "softcap" in head else None


def text_head(head: Mapped | None) -> Mapped | None:
    """The output head of the text part's own class, which the wrapper holds as a whole."""
    return head


class Wrapper(NamedTuple):
    """How a wrapper's class holds its language model.

    text: the model_type of a text part that states none.
    tie: the rule of its tie_word_embeddings.
    key: the key of the text part.
    head: the rule of its output head.
    any_text: the text part may be of another model_type.
    partial: without a text part the class fills in sizes that archcli does not know: a file has to have one.
    defaults: sizes that the class fills in before the defaults of the text part's class.
    headed: classes with an output head that no ending of their name tells.
    left_out: keys that are not read, of the text part or of parts that the class always makes, with notes.
    head_sizes: defaults of the whole file's keys that an untied head is made by.
    taken: keys of the text part that the class sets by another part: that part, its key and the default; ""
        is the whole file.
    towers: how the parts beside the text are read.
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
    towers: tuple[TowerRow, ...] = ()
