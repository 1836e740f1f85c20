"""LayerIndex: the layers of a model that each counted layer represents, by row and YAML path.

Counting traces every distinct layer once: layer i of a pattern of p layers stands for the layers i, i+p,
i+2p, … of its group. A built model has all of them; of layers that share weights the first stores them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple, TypeVar

from archcli.arith import Number, is_whole, label, repetitions
from archcli.graph import Row
from archcli.modules.attention.mixer import NO_MIXER, Mixer, MixerFacts, joined_facts
from archcli.modules.blocks.block import Block
from archcli.modules.models.stack import Stack, stacks
from archcli.modules.networks.ffn import FeedForward
from archcli.modules.spec.base import Spec
from archcli.modules.spec.context import SharedBlocks

R = TypeVar("R", bound=Row)


class DistinctLayer(NamedTuple):
    """One layer of a pattern, which stands for all layers like it.

    path: of its rows: encoder.layers.3. yaml_path: of its block: encoder.groups.0.pattern.1.
    block: its module; a shared block, where the layer only runs that. times: layers of the model like it.
    prefix, stack: what begins the paths of its stack, `encoder.` or nothing, and the stack.
    uses: (YAML path, shared block) of a layer that adds sublayers of its own; else None.
    """

    path: str
    yaml_path: str
    block: Block
    times: Number
    prefix: str
    stack: Stack
    uses: tuple[str, Block] | None = None

    def mixers(self) -> Iterator[tuple[str, Mixer]]:
        """(YAML path, mixer) of each mixer of the layer, that of the shared block it uses first."""
        for path, block in (*((self.uses,) if self.uses else ()), (self.yaml_path, self.block)):
            if block.mixing is not None:
                yield from block.mixing[1].members(f"{path}.{block.mixing[0]}")

    @property
    def ffn(self) -> FeedForward | None:
        """The layer's feed-forward network, or that of the shared block it uses."""
        return self.block.ffn if self.block.ffn is not None or not self.uses else self.uses[1].ffn

    def facts(self, d_model: Number = None) -> MixerFacts:
        """The facts of the layer's mixers, empty for a layer without one."""
        blocks = [self.uses[1], self.block] if self.uses else [self.block]
        facts = [block.facts(d_model) for block in blocks if block.mixing is not None]
        return joined_facts(facts) if len(facts) > 1 else [*facts, NO_MIXER][0]


class LayerIndex:
    """The layers of a model: iterates over distinct ones, and maps row paths to the layers they represent.

    `ranks`: how many share a matrix of which the model has the part of one.
    """

    def __init__(self, model: Spec, ranks: int = 1) -> None:
        self.ranks = ranks
        self._stacks = tuple(_built_stacks(model))
        self.prefixes = [f"{prefix}layers." for prefix, _ in self._stacks]
        self._distinct = tuple(_distinct(model))
        self.model = model

    @cached_property
    def facts(self) -> tuple[MixerFacts, ...]:
        """The facts of each distinct layer, in the order of the model: each mixture of formats asks."""
        return tuple(layer.facts() for layer in self)

    @cached_property
    def _spans(self) -> dict[str, range]:
        by_path: dict[str, range] = {}
        for stem, groups in self._groups.items():
            for group in groups:
                by_path |= {f"{stem}.{span[0]}": span for span in group.spans()}
        return by_path

    @cached_property
    def _groups(self) -> dict[str, list[GroupLayers]]:
        # AdaptTape.occurrences runs the first period apart
        adapted = getattr(self.model, "lora", None) is not None
        return {f"{prefix}layers": [*_groups(stack, adapted=adapted)] for prefix, stack in self._stacks}

    def __iter__(self) -> Iterator[DistinctLayer]:
        """Every distinct layer, in the order of the model. Sizes may be symbols."""
        return iter(self._distinct)

    def span(self, path: str) -> range:
        """The layers of its stack that a row represents; range(1) for a row outside of all layers."""
        return self._spans.get(self._split(path)[0], range(1))

    def by_layer(self, rows: Iterable[R]) -> dict[str, list[R]]:
        """The rows of each layer by its path; those outside of all layers under the empty path."""
        layers: dict[str, list[R]] = {}
        for row in rows:
            layers.setdefault(self._split(row.path)[0], []).append(row)
        return layers

    def built_paths(self, path: str) -> list[str]:
        """The paths in a built model that one counted path represents."""
        layer, rest = self._split(path)
        if layer not in self._spans:
            return [path]
        stem = layer.rpartition(".")[0]
        return [f"{stem}.{number}{rest}" for number in self._spans[layer]]

    def stored_span(self, row: Row) -> range:
        """The layers that store a row's weights; others of the row share them."""
        # None keeps all of the span, 1 its first layer, 0 none
        return self.span(row.path)[: row.stored]

    def stored_paths(self, row: Row) -> list[str]:
        """The paths in a built model at which a row's weights are stored."""
        return self.built_paths(row.path)[: row.stored]

    def counted_path(self, path: str) -> str:
        """The counted path that represents a path in a built model."""
        layer, rest = self._split(path)
        stem, _, number = layer.rpartition(".")
        if not number.isdecimal():
            return path
        groups = self._groups.get(stem, [])
        # the group is searched for by its first layer: a stack may state any number of layers
        place = bisect_right(groups, int(number), key=lambda group: group.start) - 1
        if place < 0 or int(number) >= groups[place].end:
            return path
        return f"{stem}.{groups[place].first_alike(int(number))}{rest}"

    def _split(self, path: str) -> tuple[str, str]:
        """A row's path split into its layer's path (empty outside of layers) and the rest."""
        for prefix in self.prefixes:
            if path.startswith(prefix):
                number, dot, rest = path.removeprefix(prefix).partition(".")
                return prefix + number, dot + rest
        return "", path


def _distinct(model: Spec) -> Iterator[DistinctLayer]:
    for layer in stated_layers(model):
        yield _using(layer, layer.block.used) if layer.block.used in layer.stack.shared else layer


def _built_stacks(model: Spec) -> Iterator[tuple[str, Stack]]:
    """(prefix, stack) of every stack of layers in a built model, those of its towers among them."""
    yield from stacks(model)
    for path, encoder in getattr(model, "encoders", ()):
        yield from ((path + prefix, stack) for prefix, stack in stacks(encoder))


def layer_count(model: Spec) -> int:
    """How many layers all stacks of a model have together."""
    return sum(group.n_layers for _, stack in stacks(model) for group in stack.groups)


def stated_layers(model: Spec) -> Iterator[DistinctLayer]:
    """Every distinct layer with its block as the model states it."""
    for prefix, stack in stacks(model):
        start: Number = 0
        for i, group in enumerate(stack.groups):
            for j, block in enumerate(group.blocks):
                path = f"{prefix}layers.{label(start + j)}"
                yaml_path = f"{prefix}groups.{i}.{group.step(j)}"
                times = repetitions(group.n_layers, len(group.blocks), j)
                yield DistinctLayer(path, yaml_path, block, times, prefix, stack)
            start = start + group.n_layers


def _using(layer: DistinctLayer, name: str | None) -> DistinctLayer:
    """The layer with its shared block: the layer is that block, or uses it."""
    path, blocks = f"{layer.prefix}shared.{name}", layer.stack.shared
    block = blocks[name or ""]
    # no name of a stack: it is part of the keys of weights, which nobody reads here
    if layer.block.resolved(SharedBlocks("", blocks))[0] is block:
        return layer._replace(yaml_path=path, block=block)
    return layer._replace(uses=(path, block))


class GroupLayers(NamedTuple):
    """The layers of a group by number, from `start` to before `end`; each of the first `single` alone."""

    start: int
    end: int
    period: int
    single: int

    def spans(self) -> Iterator[range]:
        """The layers that each counted layer represents."""
        repeated = self.start + self.single
        yield from (range(i, i + 1) for i in range(self.start, repeated))
        yield from (
            range(i, self.end, self.period) for i in range(repeated, min(repeated + self.period, self.end))
        )

    def first_alike(self, number: int) -> int:
        """The counted layer that represents the layer of a number."""
        repeated = self.start + self.single
        return number if number < repeated else repeated + (number - repeated) % self.period


def _groups(stack: Stack, *, adapted: bool) -> Iterator[GroupLayers]:
    """The groups of a stack, up to one whose size is no int; with adapters the first period is separate."""
    start = 0
    for group in stack.groups:
        if not is_whole(group.n_layers):
            return
        period = len(group.blocks)
        yield GroupLayers(
            start, start + group.n_layers, period, min(period, group.n_layers) if adapted else 0
        )
        start += group.n_layers


def folded_path(path: str, depth: int | None = None) -> str:
    """The first `depth` steps of a row's path (None: all), with `layers.*` for any layer of a stack."""
    steps = path.split(".")
    steps = [
        # a stack calls its rotary tables rotary.<number of the layer>
        "*" if before in {"layers", "rotary"} else step
        for before, step in zip(["", *steps], steps, strict=False)
    ]
    return ".".join(steps[:depth])
