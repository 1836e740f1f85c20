"""Kinds of layer, and the small stacks of each from which a model is profiled that does not fit into memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from archcli.graph import Row
from archcli.measure.passes import Pass, layers
from archcli.modules import Block, Group, Model
from archcli.modules.model import stacks
from archcli.modules.stack import Stack

FEW = 64
"""Entries that are left of a vocabulary where it is not what is measured."""
ATTRIBUTES = ("window", "chunk", "sparsity", "position")


@dataclass(frozen=True, slots=True)
class Kind:
    """The layers of one stack that are equal. `stem` is the stack's path with its dot, or empty.

    `places` holds the index of each counted layer that is of the kind, and how many layers that one stands for.
    """

    stem: str
    block: Block
    places: tuple[tuple[int, int], ...]
    what: str

    @property
    def path(self) -> str:
        """The path of the first such layer, which names the kind."""
        return self.layer(self.places[0][0])

    @property
    def count(self) -> int:
        """How many layers of the whole model are of the kind."""
        return sum(times for _, times in self.places)

    def layer(self, index: int) -> str:
        """The path of a layer of the kind's stack."""
        return f"{self.stem}layers.{index}"

    def rotary(self, index: int) -> str:
        """The path of the rotary table that layers like that one share; there is none where they need none."""
        return f"{self.stem}rotary.{index}"

    def rows(self, counted: Pass) -> tuple[Row, ...]:
        """The counted rows of one layer."""
        return tuple(row for row in counted.rows if row.path.startswith(f"{self.path}."))


def kinds_of(model: Model) -> tuple[Kind, ...]:
    """Every kind of layer, in the order of the layers. Equal layers at several places of a pattern, or in several groups, are one kind."""
    found: list[tuple[str, Block, list[tuple[int, int]]]] = []
    for path, block, times in layers(model):
        stem, _, index = path.rpartition("layers.")
        same = next((places for at, like, places in found if at == stem and like == block), None)
        if same is None:
            found.append((stem, block, same := []))
        same.append((int(index), times))
    words = _told([block for _, block, _ in found])
    return tuple(
        Kind(stem, block, tuple(places), what)
        for (stem, block, places), what in zip(found, words, strict=True)
    )


def with_layers(model: Model, chosen: Mapping[str, tuple[Block, int]]) -> Model:
    """The model with so many layers of a block in the stack of each stem, none where the number is 0; other stacks stay as they are."""
    return _with_groups(
        model, {stem: (Group(n_layers=n, layer=block),) if n else () for stem, (block, n) in chosen.items()}
    )


def cut(model: Model, n_layers: int) -> Model:
    """The model with the first `n_layers` layers of each of its stacks."""
    return _with_groups(model, {stem: _first(stack, n_layers) for stem, stack in stacks(model)})


def depth(model: Model) -> int:
    """How many layers the deepest stack has."""
    return max(sum(group.n_layers for group in stack.groups) for _, stack in stacks(model))


def without_ends(model: Model) -> Model:
    """The model with a vocabulary of a few words and nothing behind its last norm: what layers are measured in."""
    changes: dict[str, Any] = {
        "vocab_size": min(FEW, model.vocab_size),
        "head": None,
        "pooler": False,
        "n_labels": None,
    }
    for stem, stack in stacks(model):
        if stem and getattr(stack, "vocab_size", None):
            changes[stem[:-1]] = stack.model_copy(update={"vocab_size": FEW})
    return model.model_copy(
        update={name: value for name, value in changes.items() if name in type(model).model_fields}
    )


def may_be_empty(model: Model) -> bool:
    """Whether it runs without any layer, too: no half of it waits for the other, and no layer lends what a stack shares."""
    found = list(stacks(model))
    return len(found) == 1 and found[0][1].score_bias is None


def _first(stack: Stack, n_layers: int) -> tuple[Group, ...]:
    groups = []
    for group in stack.groups:
        if n_layers > 0:
            groups.append(group.model_copy(update={"n_layers": min(n_layers, group.n_layers)}))
        n_layers -= group.n_layers
    return tuple(groups)


def _with_groups(model: Model, groups: Mapping[str, tuple[Group, ...]]) -> Model:
    changes: dict[str, Any] = {}
    for stem, stack in stacks(model):
        if stem in groups and stem:
            changes[stem[:-1]] = stack.model_copy(update={"groups": groups[stem]})
        elif stem in groups:
            changes["groups"] = groups[stem]
    return model.model_copy(update=changes)


def _told(blocks: list[Block]) -> list[str]:
    """What each block is made of, in a few words: its attention, what of it is not the same in all blocks, and its feed-forward network."""
    apart = [name for name in ATTRIBUTES if len({_setting(block, name) for block in blocks}) > 1]
    told = []
    for block in blocks:
        cross = " + cross" if getattr(block, "cross_attention", None) is not None else ""
        settings = "".join(
            f" {name} {value}" for name in apart if (value := _setting(block, name)) not in {"", "none"}
        )
        ffn = "no ffn" if block.ffn is None else _kind(block.ffn)
        told.append(f"{block.facts().kind or 'no mixer'}{settings}{cross}, {ffn}")
    return told


def _setting(block: Block, name: str) -> str:
    value = getattr(block.mixing and block.mixing[1], name, None)
    return "" if value is None else str(getattr(value, "kind", value))


def _kind(part: Any) -> str:
    return str(getattr(part, "kind", type(part).__name__))
