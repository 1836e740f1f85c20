"""Keys and values that layers of a stack read from an earlier layer (cross-layer attention).

Brandon et al. 2024, arXiv:2405.12981; Gemma 3n. A layer whose attention states `kv_from` has no matrices of
keys and values and caches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.base import Conflict
from archcli.modules.block import Block
from archcli.modules.context import Context, Lent
from archcli.modules.mixer import Mixer

SHAPES = ("n_kv_heads", "head_dim", "v_head_dim", "window", "chunk", "sparsity", "kind", "causal")
"""Facts in which a layer and the one whose keys and values it reads agree."""
STRUCTURE = ("window", "chunk", "sparsity")
"""Facts that tell layers apart where sizes have no values."""

Place = tuple[int, int]
"""Which group, and which layer of its pattern."""

Layers = Sequence[tuple[Number, tuple[Block, ...]]]
"""The groups of a stack: how many layers, and those of one period."""


class LentEntries:
    """The keys and values lent within one pass of a stack, by the number of the layer that lends them.

    Counting runs the layers of a pattern once: the last that ran at the lender's place stands for it.
    """

    def __init__(self, layers: Layers) -> None:
        self.known = all(isinstance(n_layers, int) for n_layers, _ in layers)
        self.places = dict(_lenders(layers, known=self.known))
        self._entries: dict[int, tuple[Tensor, ...]] = {}

    def given(self, context: Context, block: Block, place: Place) -> Context:
        """A layer's context with the keys and values that it reads, and whether it is to lend its own."""
        number = None if block.mixing is None else source_of(block.mixing[1])
        return context._replace(
            borrowed=None if number is None else self._entries[number],
            lends=bool(self._asked_of(context.layer, place)),
        )

    def taken(self, kept: Any, layer: Number, place: Place) -> Any:
        """What a layer caches, once the keys and values it lends are held."""
        if not isinstance(kept, Lent):
            return kept
        self._entries.update(dict.fromkeys(self._asked_of(layer, place), kept.entries))
        return kept.kept

    def _asked_of(self, layer: Number, place: Place) -> list[int]:
        """The lending layers that this one is, or stands for until they have run."""
        numbers = [number for number, lender in self.places.items() if lender == place]
        return [number for number in numbers if layer <= number] if self.known else numbers


def source_of(mixer: Mixer | None) -> int | None:
    """The number of the layer whose keys and values a mixer reads; None for its own."""
    return getattr(mixer, "kv_from", None)


def check_sharing(layers: Layers, d_model: int) -> Iterator[tuple[Place, Conflict]]:
    """(place, conflict) of layers that read keys and values of a layer that has none, or other ones."""
    for place, mixer in _mixers(layers):
        number = source_of(mixer)
        if number is None:
            yield from ((place, it) for it in _within(mixer))
            continue
        what, hint = _mistake(layers, place, mixer, number, d_model)
        if what:
            yield place, Conflict("kv-from-layer", "kv_from", what, hint)


def _within(mixer: Mixer) -> Iterator[Conflict]:
    """Conflicts of parts of a mixer that would read another layer's keys and values."""
    for path, member in mixer.members(""):
        if source_of(member) is not None:
            what = "a branch of a mixer cannot read the keys and values of another layer"
            yield Conflict("kv-from-branch", f"{path.removeprefix('.')}.kv_from", what, "leave kv_from out")


def _mistake(layers: Layers, place: Place, mixer: Mixer, number: int, d_model: int) -> tuple[str, str]:
    """What is wrong with reading the keys and values of a layer, and how to mend it; empty texts if right."""
    first = sum(n_layers for n_layers, _ in layers[: place[0]]) + place[1]
    if number >= first:
        return f"kv_from {number} is not before this layer, which is {first}", "layers count from 0"
    lender = dict(_mixers(layers)).get(_place(layers, number))
    if lender is None or not hasattr(lender, "kv_from"):
        return f"layer {number} has no keys and values to share", "name a layer of the same kind"
    if source_of(lender) is not None:
        return f"layer {number} reads those of layer {source_of(lender)}", f"write {source_of(lender)}"
    ours, theirs = mixer.facts(d_model), lender.facts(d_model)
    other = [name for name in SHAPES if getattr(ours, name) != getattr(theirs, name)]
    if other:
        what = (
            f"layer {number} has {other[0]} {getattr(theirs, other[0])}, this one {getattr(ours, other[0])}"
        )
        return what, "name a layer of the same kind"
    return "", ""


def _lenders(layers: Layers, *, known: bool) -> Iterator[tuple[int, Place]]:
    """(number, place) of every layer whose keys and values others read."""
    before: list[tuple[Place, Mixer]] = []
    for place, mixer in _mixers(layers):
        number = source_of(mixer)
        if number is None:
            before.append((place, mixer))
        else:
            yield number, _place(layers, number) if known else _alike(before, mixer)


def _place(layers: Layers, number: int) -> Place:
    """The place of a layer by its number."""
    for i, (n_layers, blocks) in enumerate(layers):
        if number < n_layers:
            return i, number % len(blocks)
        number -= n_layers
    raise ArchError(f"there is no layer {number} in these groups", "kv_from counts layers from 0")


def _alike(before: Sequence[tuple[Place, Mixer]], mixer: Mixer) -> Place:
    """The last place before a layer of the same structure, where sizes are symbols or arrays."""
    structure = _structure(mixer)
    return next((place for place, lender in reversed(before) if _structure(lender) == structure), (0, 0))


def _structure(mixer: Mixer) -> tuple[Any, ...]:
    facts = mixer.facts()
    return (facts.kind, *(getattr(facts, name) is None for name in STRUCTURE))


def _mixers(layers: Layers) -> Iterator[tuple[Place, Mixer]]:
    for i, (_, blocks) in enumerate(layers):
        for j, block in enumerate(blocks):
            if block.mixing is not None:
                yield (i, j), block.mixing[1]
