"""What wrappers' classes make of their language model: how it is tied, which head it has."""

from __future__ import annotations

from collections.abc import Callable

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.value import ConfigValue, Mapped

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


def own(head: Mapped | None) -> Mapped | None:
    """The output head of the text part's own class, which the wrapper holds as a whole."""
    return head
