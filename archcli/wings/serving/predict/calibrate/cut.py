"""Kinds of layer (equal layers of a stack), and models cut to a few layers of a kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from archcli.graph import Row
from archcli.measure.passes import Pass
from archcli.modules import Block, Group, Model
from archcli.modules.models.layers import LayerIndex
from archcli.modules.models.stack import Stack, stacks
from archcli.modules.spec.kinds import kind_of

SMALL_VOCABULARY = 64
"""Vocabulary of small stacks, in which only the layers are timed."""
ATTRIBUTES = ("window", "chunk", "sparsity", "position")
"""Settings of attention that descriptions mention if kinds differ in them."""


@dataclass(frozen=True, slots=True)
class LayerKind:
    """The equal layers of one stack.

    stem: the stack's path with its dot, or empty.
    block: the layer.
    places: (index, layers that it stands for) of each counted layer.
    description: its attention and its feed-forward network.
    """

    stem: str
    block: Block
    places: tuple[tuple[int, int], ...]
    description: str

    @property
    def path(self) -> str:
        """The path of the first layer, which names the kind."""
        return self.layer(self.places[0][0])

    @property
    def count(self) -> int:
        """Layers of the whole model that are of the kind."""
        return sum(times for _, times in self.places)

    def layer(self, index: int) -> str:
        """The path of a layer of the stack."""
        return f"{self.stem}layers.{index}"

    def rotary(self, index: int) -> str:
        """The path of the rotary table of this kind of layer, if it has one."""
        return f"{self.stem}rotary.{index}"

    def rows(self, counted: Pass) -> tuple[Row, ...]:
        """The counted rows of one layer."""
        return tuple(row for row in counted.rows if row.path.startswith(f"{self.path}."))


def kinds_of(model: Model) -> tuple[LayerKind, ...]:
    """Every kind of layer, in the order of the layers, across groups and patterns."""
    kinds: list[tuple[str, Block, list[tuple[int, int]]]] = []
    for layer in LayerIndex(model):
        stem, block = layer.prefix, layer.block
        places = next((places for at, like, places in kinds if at == stem and like == block), None)
        if places is None:
            kinds.append((stem, block, places := []))
        places.append((int(layer.path.rpartition(".")[2]), layer.times))
    descriptions = _descriptions([block for _, block, _ in kinds])
    return tuple(
        LayerKind(stem, block, tuple(places), description)
        for (stem, block, places), description in zip(kinds, descriptions, strict=True)
    )


def with_layers(model: Model, chosen: Mapping[str, tuple[Block, int]]) -> Model:
    """The model with a stack of (block, number of layers) at each stem; other stacks stay."""
    groups = {stem: (Group(n_layers=n, layer=block),) if n else () for stem, (block, n) in chosen.items()}
    return _with_groups(model, groups)


def cut(model: Model, n_layers: int) -> Model:
    """The model with the first `n_layers` layers of each stack."""
    return _with_groups(model, {stem: _first_groups(stack, n_layers) for stem, stack in stacks(model)})


def depth(model: Model) -> int:
    """Layers of the deepest stack."""
    return max(sum(group.n_layers for group in stack.groups) for _, stack in stacks(model))


def without_ends(model: Model) -> Model:
    """The model with a tiny vocabulary and without head, to measure layers alone."""
    changes: dict[str, Any] = {
        "vocab_size": min(SMALL_VOCABULARY, model.vocab_size),
        "head": None,
        "pooler": False,
        "n_labels": None,
        "unread": {},
    }
    for stem, stack in stacks(model):
        # an encoder of text has a vocabulary, one of sounds has none
        if stem and stack.value_of("vocab_size"):
            # a stem ends in a dot, the field's name does not
            changes[stem[:-1]] = stack.replace(vocab_size=SMALL_VOCABULARY)
    return model.replace(**{name: value for name, value in changes.items() if name in model.fields})


def stand_alone(model: Model) -> bool:
    """Whether layers can be measured alone: none reads keys, indices or embeddings of others."""
    groups = chain.from_iterable(stack.groups for _, stack in stacks(model))
    blocks = [block for group in groups for block in group.blocks]
    lent = any(
        {block.facts().kv_from, block.facts().index_from} != {None} or block.streams > 1 for block in blocks
    )
    return not lent and model.layer_embedding is None


def may_be_empty(model: Model) -> bool:
    """Whether the model runs without layers: one stack, and no score bias shared by layers."""
    by_stem = dict(stacks(model))
    return len(by_stem) == 1 and all(stack.score_bias is None for stack in by_stem.values())


def _first_groups(stack: Stack, n_layers: int) -> tuple[Group, ...]:
    groups = []
    for group in stack.groups:
        if n_layers > 0:
            groups.append(group.replace(n_layers=min(n_layers, group.n_layers)))
        n_layers -= group.n_layers
    return tuple(groups)


def _with_groups(model: Model, groups: Mapping[str, tuple[Group, ...]]) -> Model:
    changes: dict[str, Any] = {}
    for stem, stack in stacks(model):
        if stem in groups and stem:
            changes[stem[:-1]] = stack.replace(groups=groups[stem])
        elif stem in groups:
            changes["groups"] = groups[stem]
    return model.replace(**changes)


def _descriptions(blocks: list[Block]) -> list[str]:
    """Each block's attention, with the attributes in which blocks differ, and its feed-forward network."""
    differing = [name for name in ATTRIBUTES if len({_setting(block, name) for block in blocks}) > 1]
    return [f"{_attention(block, differing)}, {_ffn(block)}" for block in blocks]


def _attention(block: Block, attributes: list[str]) -> str:
    values = [(name, _setting(block, name)) for name in attributes]
    settings = "".join(f" {name} {value}" for name, value in values if value not in {"", "none"})
    cross = " + cross" if block.crosses_source else ""
    return f"{block.facts().kind or 'no mixer'}{settings}{cross}"


def _ffn(block: Block) -> str:
    return " + ".join(kind_of(net) or type(net).__name__ for net in block.all_networks) or "no ffn"


def _setting(block: Block, name: str) -> str:
    value = None if block.mixing is None else block.mixing[1].value_of(name)
    return "" if value is None else kind_of(value) or str(value)
