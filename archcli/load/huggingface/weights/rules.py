"""Rules that translate Hugging Face's tensor names to archcli's.

In a pattern `*` stands for one step of a name (a layer's index, `weight` or `bias`) and fills the `*` of our
names in order; `#` for the index of a tensor that is stacked with its neighbours into one of ours, alone or
behind a word (`expert_#`); a last `**` for all that follows. What stands in brackets may be left out, as
`[model.]` is by the base class.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Parts:
    """The archcli weights, one or several, that a stored tensor holds.

    `transposed`: stored [in, out] (GPT-2's Conv1D, stacked experts of some). `axis`: several of ours lie one
    after the other along it. `groups`: they do so anew in each of so many groups (q, k, v of head 0, then of
    head 1, …). `flat`: stored with so many axes of 1 in front. `merged`: a stack of matrices, stored one
    below the other as one (DBRX's experts). `again`: it may be stored under a second name too. `unread`: so
    many more entries at the end of its first axis, which no pass reads (LongCat-Flash).
    """

    ours: tuple[str, ...]
    axis: int = 0
    groups: int = 1
    transposed: bool = False
    flat: int = 0
    merged: bool = False
    again: bool = False
    unread: int = 0


@dataclass(frozen=True)
class Auxiliary:
    """A stored tensor that is no weight of the model, with the reason."""

    reason: str


Rule = str | Parts | Auxiliary
"""A plain name is a copy."""

Weights = Mapping[str, Rule]


def parts_of(rule: str | Parts) -> Parts:
    """The parts that a rule names."""
    return Parts((rule,)) if isinstance(rule, str) else rule


def fill_in(template: str, words: list[str]) -> str:
    """The template with each `*` replaced by the next of the matched parts."""
    rest = iter(words)
    return re.sub(r"\*", lambda _: next(rest), template)


def expand(pattern: str) -> Iterator[str]:
    """The pattern with its optional part in brackets, and without it."""
    before, bracket, rest = pattern.partition("[")
    if not bracket:
        yield pattern
        return
    optional, _, after = rest.partition("]")
    for ending in expand(after):
        yield from (before + optional + ending, before + ending)
