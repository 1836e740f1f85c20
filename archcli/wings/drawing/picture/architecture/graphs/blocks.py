"""Blocks of a layered graph: slots in one vertical line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from archcli.wings.drawing.picture.architecture.graphs.layers import Layers

Names: TypeAlias = AbstractSet[str]


@dataclass(frozen=True)
class Blocks:
    """Slots in blocks: the block of each slot, the slots of each block, and the neighbours of each slot.

    order: the blocks from left to right, each after all to its left.
    """

    of: dict[str, int]
    members: dict[int, list[str]]
    order: list[int]
    lefts: dict[str, str]
    rights: dict[str, str]


def blocks_of(layers: Layers, rings: Names = frozenset(), centred: Names = frozenset()) -> Blocks:
    """Join slots whose edge should be straight, so that no two such edges cross.

    A ring stands above its first branch; others reach it from the side. A `centred` slot stands above the
    middle of its inputs.
    """
    up: dict[str, str] = {}
    taken: set[str] = set()
    for low, high in sorted(_straight(layers, rings, centred), key=lambda edge: _urgency(layers, *edge)):
        if low not in up and high not in taken and not _crosses(layers, up, low, high):
            up[low] = high
            taken.add(high)
    of: dict[str, int] = {}
    members: dict[int, list[str]] = {}
    for slot in (slot for rank in layers.ranks for slot in rank):
        block = of.setdefault(slot, len(members))
        members.setdefault(block, []).append(slot)
        if slot in up:
            of[up[slot]] = block
    pairs = [pair for rank in layers.ranks for pair in pairwise(rank)]
    rights = dict(pairs)
    lefts = {high: low for low, high in pairs}
    return Blocks(of, members, _sorted(of, members, lefts), lefts, rights)


def _straight(layers: Layers, rings: Names, centred: Names) -> Iterator[tuple[str, str]]:
    """Edges that should be straight: the only one at both ends, or that of a lane or of the spine."""
    for low, readers in layers.above.items():
        for high in readers:
            real = [slot for slot in layers.below[high] if not layers.slots[slot].passing]
            lone = len(layers.below[high]) == 1
            first = (real[:1] if high in rings else real) == [low] and high not in centred
            alone = len(readers) == 1 and (lone or first)
            onward = lone and layers.slots[low].passing
            pinned = {low, high} & layers.pinned
            if {low, high} == pinned or (not pinned and (alone or onward)):
                yield low, high


def _urgency(layers: Layers, low: str, high: str) -> tuple[bool, int]:
    """A sort key: edges of the spine first, then long edges."""
    passing = layers.slots[low].passing + layers.slots[high].passing
    return low not in layers.pinned, -passing


def _crosses(layers: Layers, up: Mapping[str, str], low: str, high: str) -> bool:
    """Whether a straight edge from `low` to `high` would cross another straight one."""
    lows = layers.ranks[layers.slots[low].rank]
    highs = layers.ranks[layers.slots[high].rank]
    return any(
        (lows.index(low) - lows.index(lower)) * (highs.index(high) - highs.index(up[lower])) < 0
        for lower in lows
        if lower in up
    )


def _sorted(of: Mapping[str, int], members: Mapping[int, list[str]], lefts: Mapping[str, str]) -> list[int]:
    """Blocks from left to right."""
    before = {block: {of[lefts[slot]] for slot in slots if slot in lefts} for block, slots in members.items()}
    order: list[int] = []
    while len(order) < len(before):
        order += [block for block in before if block not in order and before[block] <= {*order}]
    return order
