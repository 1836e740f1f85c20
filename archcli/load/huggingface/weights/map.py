"""WeightMap: rules that translate the tensor names of a checkpoint to archcli's.

    "[model.]layers.*.self_attn.q_proj.*": "layers.*.attention.q_proj.*"

In a pattern `*` stands for one step of a name (a layer's index, `weight` or `bias`) and fills the `*` of
archcli's name in order; `#` for the index of a tensor that is stacked with its neighbours into one weight,
alone or behind a word (`expert_#`); a last `**` for all that follows. What stands in brackets may be left
out, as `[model.]` is by the base class.

No tensor is touched here; that is `archcli.wings.running.runtime.weights.translate`.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from archcli.load.huggingface.weights.auxiliary import (
    BESIDE_MODULE,
    BESIDE_PACKED,
    TOWER,
    auxiliary_reason,
    packed,
)


@dataclass(frozen=True)
class Parts:
    """The archcli weights, one or several, that a stored tensor holds.

    axis: several weights lie one after the other along it.
    groups: they do so in each of so many groups: q, k, v of head 0, then of head 1, …
    transposed: stored [in, out], as GPT-2's Conv1D and some stacked experts.
    flat: stored with so many axes of 1 in front.
    tapped: stored with so many axes of 1 behind, as the kernel of a convolution with one tap (SqueezeBERT).
    heads: stored with its last axis as so many heads and their width, [in, H, d] (XLNet).
    merged: a stack of matrices, stored one below the other as one (DBRX's experts).
    again: it may be stored under a second name too, as tied tables are.
    folded: stored with its last axis as axes of these lengths, as the kernel of a convolution.
    unread: so many more entries at the end of its first axis, which no pass reads (LongCat-Flash).
    frames: stored with its second axis as channels and so many frames (patches of Qwen2-VL).
    scalar: stored as a number without an axis (CLIP's temperature).
    blocks: its last axis stored as a number of each of so many patches, not as patches (Mistral 3).
    in_memory: a class holds it so, and files hold its parts apart (MiniMax-M3's gate_up_proj).
    slices: its rows are stored in so many tensors, a `#` each, equal but the last (Qwen4-Exp's n-grams).
    linear: whether the module is torch's linear layer or table, where the op does not say so: true of a
        weight that no pass reads (LUKE), false of a class of its own (I-BERT's QuantLinear).
    """

    ours: tuple[str, ...]
    axis: int = 0
    groups: int = 1
    transposed: bool = False
    flat: int = 0
    heads: int = 0
    merged: bool = False
    tapped: int = 0
    again: bool = False
    unread: int = 0
    frames: int = 0
    scalar: bool = False
    blocks: int = 0
    folded: tuple[int, ...] = ()
    in_memory: bool = False
    slices: int = 0
    linear: bool | None = None


@dataclass(frozen=True)
class Auxiliary:
    """A stored tensor that is no weight of the model, with the reason."""

    reason: str


Rule = str | Parts | Auxiliary
"""A plain name is a weight that is stored as it is."""

Weights = Mapping[str, Rule]


def parts_of(rule: str | Parts) -> Parts:
    """The parts that a rule names."""
    return Parts((rule,)) if isinstance(rule, str) else rule


def fill_in(template: str, matches: list[str]) -> str:
    """The template with each `*` replaced by the next of the matched parts."""
    rest = iter(matches)
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


Shape = tuple[int, ...]

MOST_DIGITS = 6
"""Longer numbers are no index of an expert."""


class WeightTarget(NamedTuple):
    """The target of a stored tensor: its parts, archcli's names, and its index in a stack.

    `packed`: it holds the values in fewer bits, so that its shape says nothing.
    """

    parts: Parts
    names: tuple[str, ...]
    nth: int | None
    packed: bool = False

    def stored_shape(self, shapes: Mapping[str, Shape]) -> Shape | None:
        """The shape the stored tensor must have; None where the shapes of its parts do not fit together."""
        ours = [shapes[name] for name in self.names]
        if self.parts.slices:
            rows = self._rows(ours[0][0], self.nth or 0)
            return (len(rows), *ours[0][1:]) if rows else None
        if self.nth is not None:
            if any(not shape or self.nth >= shape[0] for shape in ours):
                return None
            ours = [shape[1:] for shape in ours]
        whole = list(ours[0])
        if len(ours) > 1:
            axis = self.parts.axis
            if any(shape[axis] % self.parts.groups for shape in ours):
                return None
            whole[axis] = sum(shape[axis] for shape in ours)
        if self.parts.transposed and len(whole) > 1:
            # the last two axes change places; the axis of a stack stays first
            whole[-2:] = whole[:-3:-1]
        if self.nth is None and self.parts.unread:
            whole[0] += self.parts.unread
        return self._laid_out(whole)

    def _rows(self, rows: int, nth: int) -> range:
        """The rows that the nth slice of a table of so many holds."""
        per_part = -(-rows // self.parts.slices)
        return range(rows)[nth * per_part : (nth + 1) * per_part]

    def member(self, weight: Any) -> Any:
        """What the stored tensor holds of archcli's: all of it, a member of a stack, or some rows."""
        if self.nth is None:
            return weight
        rows = self._rows(len(weight), self.nth) if self.parts.slices else None
        return weight[self.nth] if rows is None else weight[rows.start : rows.stop]

    def members(self, shape: Shape) -> Iterator[tuple[int, Shape]]:
        """(number, shape) of each tensor that holds a member of a stack, or some rows, of this shape."""
        for nth in range(self.parts.slices or shape[0]):
            of_slice = (len(self._rows(shape[0], nth)),) if self.parts.slices else ()
            yield nth, (*of_slice, *shape[1:])

    def _laid_out(self, whole: list[int]) -> Shape:
        """The shape with its axes split, joined or added as they are stored."""
        if self.parts.heads:
            whole[-1:] = [self.parts.heads, whole[-1] // self.parts.heads]
        if self.parts.folded:
            whole[-1:] = self.parts.folded
        if self.parts.merged:
            whole[:2] = [whole[0] * whole[1]]
        if self.parts.frames:
            whole[1:2] = [whole[1] // self.parts.frames, self.parts.frames]
        if self.parts.scalar:
            return ()
        return (*(1,) * self.parts.flat, *whole, *(1,) * self.parts.tapped)

    def renamed(self, names: tuple[str, ...]) -> WeightTarget:
        """The target under other archcli names, which another tensor may hold as well."""
        return self._replace(names=names, parts=replace(self.parts, again=True))


class WeightMap:
    """A family's table of weight names, indexed for lookup.

    `wrapped`: the checkpoint is a wrapper's, and holds towers as well, whose names are `towers` where they
    are known. `ties_unstored`: where it holds no head, the head is tied, whatever the config says.
    """

    def __init__(
        self,
        weights: Weights,
        wrapped: bool = False,
        ties_unstored: bool = False,
        towers: Weights | None = None,
    ) -> None:
        self.wrapped, self.ties_unstored = wrapped, ties_unstored
        self.towers = None if towers is None else WeightMap(towers)
        self.rules = {name: rule for pattern, rule in weights.items() for name in expand(pattern)}
        self._tree: dict[str, Any] = {}
        for name, rule in self.rules.items():
            node = self._tree
            for step in name.split("."):
                node = node.setdefault(step, {})
            node[""] = rule

    def find(self, name: str) -> WeightTarget | None:
        """The target of the stored tensor `name`; None where it has no rule or is auxiliary.

        Raises KeyError where two rules claim it.
        """
        of_tower = None if self.towers is None else self.towers.find(name)
        if of_tower is not None:
            return of_tower
        base = packed(plain(name))
        target = self._find(plain(name) if base is None else base)
        return target if target is None or base is None else target._replace(packed=True)

    def reason(self, name: str, shape: Shape | None) -> str:
        """The reason why a checkpoint holds a tensor that is no weight; empty for an unknown one."""
        rules = [rule for rule, _, _ in _matches(self._tree, plain(name).split("."))]
        reasons = (rule.reason for rule in rules if isinstance(rule, Auxiliary))
        return next(reasons, "") or auxiliary_reason(name, shape) or (TOWER if self._is_tower(name) else "")

    def _is_tower(self, name: str) -> bool:
        """Whether a name leads to no layer of the language model, in a checkpoint that holds more than it."""
        node = self._tree
        for step in name.split(".") if self.wrapped and plain(name) == name else ():
            if step not in node:
                return not {"*", "#", "**", ""}.intersection(node)
            node = node[step]
        return False

    def packed_beside(self, name: str, stored: Container[str]) -> bool:
        """Whether this tensor is packed: scales or zero points are stored under its name."""
        module = name.removesuffix(".weight")
        packed = [name + ending for ending in BESIDE_PACKED]
        return any(held in stored for held in (*packed, *(module + ending for ending in BESIDE_MODULE)))

    def checkpoint_name(self, ours: str, nth: int | None = None) -> str:
        """The first checkpoint name of archcli's tensor, or of the nth tensor of its stack.

        Empty where no rule names it.
        """
        return next(self.checkpoint_names(ours, nth), "")

    def checkpoint_names(self, ours: str, nth: int | None = None) -> Iterator[str]:
        """All checkpoint names of archcli's tensor, or of the nth tensor of its stack."""
        if self.towers is not None:
            yield from self.towers.checkpoint_names(ours, nth)
        index = "*" if nth is None else str(nth)
        for (_, name), matches in sorted(_templates(self._by_ours, ours.split("."))):
            is_slice = not isinstance(rule := self.rules[name], Auxiliary) and parts_of(rule).slices
            # the slices of a table are no modules of their own
            if len(matches) == name.count("*") and (not is_slice if nth is None else "#" in name):
                yield fill_in(name, list(matches)).replace("#", index)

    @cached_property
    def _by_ours(self) -> dict[str, Any]:
        """The rules as a tree of the steps of archcli's names: (place in the table, checkpoint's name)."""
        tree: dict[str, Any] = {}
        for place, (name, rule) in enumerate(self.rules.items()):
            for template in () if isinstance(rule, Auxiliary) else parts_of(rule).ours:
                node = tree
                for step in template.split("."):
                    node = node.setdefault(step, {})
                node.setdefault("", []).append((place, name))
        return tree

    def _find(self, name: str) -> WeightTarget | None:
        targets: list[tuple[Parts, list[str], int | None]] = []
        for rule, matches, index in _matches(self._tree, name.split(".")):
            # decides alone: `layers.61.**`, of a prediction layer, meets names that `layers.*` meets too
            if isinstance(rule, Auxiliary):
                return None
            targets.append((parts_of(rule), matches, index))
        if not targets:
            return None
        if len(targets) > 1:
            raise KeyError(f"{name} has {len(targets)} rules")
        [(parts, matches, index)] = targets
        return WeightTarget(parts, tuple(fill_in(template, matches) for template in parts.ours), index)


def plain(name: str) -> str:
    """The tensor's name without the prefix of the language model in wrappers."""
    # wrappers put it in front, or after `model.`
    prefix = next((prefix for prefix in ("language_model.", "text_model.") if prefix in name), "")
    return name.replace(prefix, "", 1) if prefix else name


def _templates(
    node: dict[str, Any], steps: list[str], matches: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[int, str], tuple[str, ...]]]:
    """(rule of `_by_ours`, wildcard values) of every template that the steps of archcli's name fit."""
    if not steps:
        yield from ((rule, matches) for rule in node.get("", ()))
        return
    step, *rest = steps
    for key, below in node.items():
        if key == step and "*" not in key and key:
            yield from _templates(below, rest, matches)
        elif "*" in key:
            match = re.fullmatch(re.escape(key).replace(r"\*", "(.+)"), step)
            if match:
                yield from _templates(below, rest, (*matches, *match.groups()))


def _matches(
    node: dict[str, Any], steps: list[str], matches: tuple[str, ...] = ()
) -> Iterator[tuple[Rule, list[str], int | None]]:
    """(rule, wildcard values, index) of every rule that matches the steps of a name."""
    if not steps:
        if "" in node:
            yield node[""], list(matches), None
        return
    step, *rest = steps
    if "**" in node:
        yield node["**"][""], list(matches), None
    # a step may be empty or `*` in a stranger's file, and must not find what the tree keeps there
    if step in node and step not in ("", "*", "#", "**"):
        yield from _matches(node[step], rest, matches)
    if "*" in node and step:
        yield from _matches(node["*"], rest, (*matches, step))
    for key, below in node.items():
        number = step.removeprefix(key[:-1]) if key.endswith("#") and step.startswith(key[:-1]) else ""
        # int() reads digits of other scripts, and takes quadratic time for long ones
        if number.isascii() and number.isdigit() and len(number) <= MOST_DIGITS:
            for rule, matched, _ in _matches(below, rest, matches):
                yield rule, matched, int(number)
