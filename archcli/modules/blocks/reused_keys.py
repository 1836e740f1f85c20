"""What layers of a stack read from an earlier layer: keys and values, or the choice of its index.

Brandon et al. 2024, arXiv:2405.12981; Gemma 3n. A layer whose attention states `kv_from` has no matrices of
keys and values and caches nothing; one that states `index_from` has no indexer (arXiv:2603.12201).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from archcli.arith import Number, is_whole
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.attention.mixer import Mixer
from archcli.modules.blocks.block import Block
from archcli.modules.spec.base import Conflict
from archcli.modules.spec.context import Context, Lent

SHAPES = ("n_kv_heads", "head_dim", "v_head_dim", "window", "chunk", "sparsity", "kind", "causal")
"""Facts that a layer shares with the layer that lends it keys and values."""
LENT = {"kv_from": "keys and values", "index_from": "choice of an index"}
"""What a layer reads from an earlier one, by the field with that layer's number."""
STRUCTURE = {"kv_from": ("window", "chunk", "sparsity"), "index_from": ("indexed",)}
"""Facts that tell lending layers apart where sizes have no values, by field."""

Place = tuple[int, int]
"""Which group, and which layer of its pattern."""

Layers = Sequence[tuple[Number, tuple[Block, ...]]]
"""The groups of a stack: how many layers, and those of one period."""


class LentEntries:
    """What is lent within one pass of a stack, by the number of the layer that lends it.

    Counting runs the layers of a pattern once: the last that ran at the lender's place stands for it.
    """

    def __init__(self, layers: Layers) -> None:
        self.known = all(is_whole(n_layers) for n_layers, _ in layers)
        self.places = dict(_lenders(layers, known=self.known))
        self._entries: dict[int, tuple[Tensor, ...]] = {}

    def context_of(self, context: Context, block: Block, place: Place) -> Context:
        """A layer's context with the entries that it borrows, and whether it is to lend its own."""
        number = None if block.mixing is None else source_of(block.mixing[1])
        return context._replace(
            borrowed=None if number is None else self._entries[number],
            lends=bool(self._lends_as(context.layer, place)),
        )

    def taken(self, kept: Any, layer: Number, place: Place) -> Any:
        """A layer's cache; keeps the entries that it lends for the layers that read them."""
        if not isinstance(kept, Lent):
            return kept
        self._entries.update(dict.fromkeys(self._lends_as(layer, place), kept.entries))
        return kept.kept

    def _lends_as(self, layer: Number, place: Place) -> list[int]:
        """The numbers of the lending layers that this one is, or stands for until they have run."""
        numbers = [number for number, lender in self.places.items() if lender == place]
        # a counted layer runs once for all that are alike, and lends for those that come later
        return [number for number in numbers if layer <= number] if self.known else numbers


def source_of(mixer: Mixer | None) -> int | None:
    """The number of the earlier layer whose entries a mixer reads; None if it makes its own."""
    return next((number for _, number in _sources(mixer)), None)


def _sources(mixer: Mixer | None) -> Iterator[tuple[str, int]]:
    """(field, number) of each earlier layer that a mixer reads."""
    for field in LENT:
        number = getattr(mixer, field, None)
        if number is not None:
            yield field, number


def check_sharing(layers: Layers, d_model: int) -> Iterator[tuple[Place, Conflict]]:
    """(place, conflict) of layers that read what an earlier layer lacks, or has in another shape."""
    for place, mixer in _mixers(layers):
        sources = list(_sources(mixer))
        if not sources:
            yield from ((place, it) for it in _within(mixer))
        elif len(sources) > 1:
            what = "a layer reads keys and values of an earlier one, or what its index has chosen"
            yield place, Conflict("one-from-layer", "index_from", what, "leave one of them out")
        else:
            what, hint = _mistake(layers, place, mixer, sources[0], d_model)
            if what:
                yield place, Conflict("reads-of-layer", sources[0][0], what, hint)


def _within(mixer: Mixer) -> Iterator[Conflict]:
    """Conflicts of parts of a mixer that would read of another layer."""
    for path, member in mixer.members(""):
        for field, _ in _sources(member):
            what = f"a branch of a mixer cannot read the {LENT[field]} of another layer"
            at = f"{path.removeprefix('.')}.{field}"
            yield Conflict("reads-in-branch", at, what, f"leave {field} out")


def _mistake(
    layers: Layers, place: Place, mixer: Mixer, source: tuple[str, int], d_model: int
) -> tuple[str, str]:
    """Why a layer cannot read the earlier one that it numbers, and a hint; empty texts if it can."""
    field, number = source
    first = sum(n_layers for n_layers, _ in layers[: place[0]]) + place[1]
    # first of all: `_place` has no place for a number beyond the last layer
    if number >= first:
        return f"{field} {number} is not before this layer, which is {first}", "layers count from 0"
    lender = dict(_mixers(layers)).get(_place(layers, number))
    if lender is None or not hasattr(lender, field):
        return f"layer {number} has no {LENT[field]} to share", "name a layer of the same kind"
    earlier = getattr(lender, field)
    if earlier is not None:
        return f"layer {number} reads those of layer {earlier}", f"write {earlier}"
    if field == "index_from":
        return _unlike_index(mixer, lender, number)
    return _unlike(mixer, lender, number, d_model)


def _unlike(mixer: Mixer, lender: Mixer, number: int, d_model: int) -> tuple[str, str]:
    """How a layer's keys and values differ from those it reads, and a hint; empty texts if alike."""
    ours, theirs = mixer.facts(d_model), lender.facts(d_model)
    unlike = next((name for name in SHAPES if getattr(ours, name) != getattr(theirs, name)), None)
    if unlike is None:
        return "", ""
    what = f"layer {number} has {unlike} {getattr(theirs, unlike)}, this one {getattr(ours, unlike)}"
    return what, "name a layer of the same kind"


def _unlike_index(mixer: Any, lender: Any, number: int) -> tuple[str, str]:
    """How a layer's index differs from the one whose choice it reads, and a hint; empty if alike."""
    if mixer.index is None:
        what = "index_from reads what an index has chosen, and the layer states none"
        return what, "state the index of that layer here too"
    if lender.index == mixer.index:
        return "", ""
    return f"layer {number} has another index, or none", "state the same index in both"


def _lenders(layers: Layers, *, known: bool) -> Iterator[tuple[int, Place]]:
    """(number, place) of every layer whose entries others read."""
    before: list[tuple[Place, Mixer]] = []
    for place, mixer in _mixers(layers):
        for field, number in _sources(mixer):
            yield number, _place(layers, number) if known else _alike(before, mixer, field)
        before.append((place, mixer))


def _place(layers: Layers, number: int) -> Place:
    """The place of a layer by its number."""
    for i, (n_layers, blocks) in enumerate(layers):
        if number < n_layers:
            return i, number % len(blocks)
        number -= n_layers
    raise ArchError(f"there is no layer {number} in these groups", "layers count from 0")


def _alike(before: Sequence[tuple[Place, Mixer]], mixer: Mixer, field: str) -> Place:
    """The nearest earlier layer of the same structure; symbols and arrays hide the layers' numbers."""
    lenders = [(place, lender) for place, lender in before if getattr(lender, field, None) is None]
    structure = _structure(mixer, field)
    alike = (place for place, lender in reversed(lenders) if _structure(lender, field) == structure)
    return next(alike, (0, 0))


def _structure(mixer: Mixer, field: str) -> tuple[Any, ...]:
    facts = mixer.facts()
    return (facts.kind, *(getattr(facts, name) is None for name in STRUCTURE[field]))


def _mixers(layers: Layers) -> Iterator[tuple[Place, Mixer]]:
    for i, (_, blocks) in enumerate(layers):
        for j, block in enumerate(blocks):
            if block.mixing is not None:
                yield (i, j), block.mixing[1]
