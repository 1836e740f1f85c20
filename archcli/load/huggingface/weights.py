"""Which of our weights each tensor of a checkpoint becomes, as data: a table from Hugging Face's names to ours.

In a pattern `*` stands for one step of a name (a layer's index, `weight` or `bias`) and fills the `*` of our names in order; `#` for the
index of a tensor that is stacked with its neighbours into one of ours; a last `**` for all that follows. What stands in brackets may be
left out, as `[model.]` is by a checkpoint of the base class. No tensor is touched here; that is `archcli.runtime.weights.translate`.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from archcli.load.huggingface.auxiliary import BESIDE_PACKED, auxiliary_reason, packed

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Take:
    """One of theirs becomes one or several of ours.

    `transposed`: stored [in, out] (GPT-2's Conv1D, stacked experts of some). `axis`: several of ours lie one after the
    other along it. `groups`: they do so anew in each of so many groups (q, k, v of head 0, then of head 1, …). `flat`:
    stored with an axis of 1 in front. `again`: the same tensor may stand under a second name.
    """

    ours: tuple[str, ...]
    axis: int = 0
    groups: int = 1
    transposed: bool = False
    flat: bool = False
    again: bool = False


@dataclass(frozen=True)
class Drop:
    """A tensor that is stored and that no model of ours holds, and why."""

    reason: str


Rule = str | Take | Drop
Weights = Mapping[str, Rule]


class Place(NamedTuple):
    """Where one tensor of a checkpoint goes: its rule, our names, and which of a stack it is, if it is one.

    `packed`: it holds the values in fewer bits, so that its shape says nothing.
    """

    take: Take
    names: tuple[str, ...]
    nth: int | None
    packed: bool = False

    def stored_shape(self, shapes: Mapping[str, Shape]) -> Shape | None:
        """The shape the stored tensor must have for ours to have theirs, or None where they do not fit together."""
        ours = [shapes[name] for name in self.names]
        if self.nth is not None:
            if any(not shape or self.nth >= shape[0] for shape in ours):
                return None
            ours = [shape[1:] for shape in ours]
        whole = list(ours[0])
        if len(ours) > 1:
            axis = self.take.axis
            if any(shape[axis] % self.take.groups for shape in ours):
                return None
            whole[axis] = sum(shape[axis] for shape in ours)
        if self.take.transposed and len(whole) > 1:
            whole[-2:] = whole[:-3:-1]
        return (1, *whole) if self.take.flat else tuple(whole)

    def renamed(self, names: tuple[str, ...]) -> Place:
        """The same tensor under other names of ours, which another may hold as well."""
        return self._replace(names=names, take=replace(self.take, again=True))


class WeightMap:
    """A family's table, made to be asked by name."""

    def __init__(self, weights: Weights) -> None:
        self.rules = {name: rule for pattern, rule in weights.items() for name in spelled_out(pattern)}
        self._tree: dict[str, Any] = {}
        for name, rule in self.rules.items():
            node = self._tree
            for step in name.split("."):
                node = node.setdefault(step, {})
            node[""] = rule

    def find(self, name: str) -> Place | None:
        """Where their tensor `name` goes, or None where the table has no rule for it, or one that drops it.

        Raises KeyError where two rules claim it.
        """
        base = packed(plain(name))
        place = self._find(plain(name) if base is None else base)
        return place._replace(packed=True) if place is not None and base is not None else place

    def reason(self, name: str, shape: Shape | None) -> str:
        """Why their tensor `name` may stand in a checkpoint although no model of ours holds it; empty where nothing is known."""
        dropped = (
            rule.reason
            for rule, _, _ in _matches(self._tree, plain(name).split("."))
            if isinstance(rule, Drop)
        )
        return next(dropped, "") or auxiliary_reason(name, shape)

    def packed_beside(self, name: str, stored: Container[str]) -> bool:
        """Whether what is stored beside it says that this tensor holds its weight in fewer bits."""
        return any(name + ending in stored for ending in BESIDE_PACKED)

    def theirs(self, ours: str, nth: int | None = None) -> str:
        """The first name under which a checkpoint may hold our tensor, or the nth of those it is stacked of; empty if there is none."""
        for name, rule in self.rules.items():
            for template in () if isinstance(rule, Drop) else taken(rule).ours:
                words = re.fullmatch(re.escape(template).replace(r"\*", "([^.]+)"), ours)
                if words and template.count("*") == name.count("*") and (nth is None or "#" in name):
                    return filled(name, list(words.groups())).replace("#", "*" if nth is None else str(nth))
        return ""

    def _find(self, name: str) -> Place | None:
        found = list(_matches(self._tree, name.split(".")))
        if not found or any(isinstance(rule, Drop) for rule, _, _ in found):
            return None
        if len(found) > 1:
            raise KeyError(f"{name} has {len(found)} rules")
        rule, words, index = found[0]
        take = taken(rule)
        return Place(take, tuple(filled(template, words) for template in take.ours), index)


def taken(rule: str | Take) -> Take:
    """A plain name is a copy."""
    return Take((rule,)) if isinstance(rule, str) else rule


def filled(template: str, words: list[str]) -> str:
    """The template with each `*` replaced by the next word."""
    rest = iter(words)
    return re.sub(r"\*", lambda _: next(rest), template)


def plain(name: str) -> str:
    """Their name as if the language model stood alone: what has towers holds it as `language_model`, above `model` or below."""
    return name.replace("language_model.", "", 1) if "language_model." in name else name


def spelled_out(pattern: str) -> Iterator[str]:
    """The pattern with what is in brackets, and without."""
    before, bracket, rest = pattern.partition("[")
    if not bracket:
        yield pattern
        return
    optional, _, after = rest.partition("]")
    for ending in spelled_out(after):
        yield from (before + optional + ending, before + ending)


MOST_DIGITS = 6
"""More is no index of an expert."""


def _matches(
    node: dict[str, Any], steps: list[str], words: tuple[str, ...] = ()
) -> Iterator[tuple[Any, list[str], int | None]]:
    """(rule, words, index) of every path through the tree that the steps can take."""
    if not steps:
        if "" in node:
            yield node[""], list(words), None
        return
    step, *rest = steps
    if "**" in node:
        yield node["**"][""], list(words), None
    if step in node and step not in ("", "*", "#", "**"):
        yield from _matches(node[step], rest, words)
    if "*" in node and step:
        yield from _matches(node["*"], rest, (*words, step))
    if "#" in node and step.isascii() and step.isdigit() and len(step) <= MOST_DIGITS:
        yield from ((rule, found, int(step)) for rule, found, _ in _matches(node["#"], rest, words))
