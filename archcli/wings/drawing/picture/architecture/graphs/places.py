"""Where the slots of a layered graph stand from left to right: in blocks, one over the other, apart.

It is done twice. First with the numbers of this model, where blocks move towards what they are joined to.
Then once more by arithmetic alone, so that traced numbers come to the same places and, for other figures,
are pushed apart where they would meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, NamedTuple

from archcli.wings.drawing.picture.architecture.graphs.blocks import Blocks
from archcli.wings.drawing.picture.architecture.graphs.layers import Layers
from archcli.wings.drawing.picture.architecture.numbers import concrete, least, most

ROUNDS, STILL = 24, 0.05
"""Blocks are moved so often at most, or until none moves farther."""
LANE = 6.0
"""Half the room of an edge that passes by."""
GAP, WIDEST_GAP = 14.0, 40.0
"""Units between neighbours: at least, and at most where there is room."""


class SideRoom(NamedTuple):
    """How far a slot reaches to one side: `features` to scale and `fixed` units, but `least` at least."""

    features: Any = 0
    fixed: float = 0.0
    least: float = 0.0

    def at(self, scale: Any) -> Any:
        """The units that it takes."""
        units = self.features * scale + self.fixed
        return most(units, self.least) if self.least else units


class Width(NamedTuple):
    """Features to scale and units that stand side by side."""

    features: Any
    fixed: float

    def at(self, scale: float) -> float:
        """The units that they take."""
        return concrete(self.features) * scale + self.fixed

    def plus(self, more: Width) -> Width:
        """Both side by side."""
        return Width(self.features + more.features, self.fixed + more.fixed)


class Reach(NamedTuple):
    """How far a slot reaches to the left and to the right of where its edges meet it.

    `spans` says that it is widened until all that it reads stands under it.
    """

    left: SideRoom = SideRoom(0, LANE)
    right: SideRoom = SideRoom(0, LANE)
    spans: bool = False


@dataclass
class Places:
    """The axis of each slot, and how far it reaches on either side."""

    axis: dict[str, Any]
    left: dict[str, Any]
    right: dict[str, Any]

    def edges(self, slots: Sequence[str]) -> tuple[Any, Any]:
        """The left edge of the first of some slots, and the right one of the last."""
        first, last = slots[0], slots[-1]
        return self.axis[first] - self.left[first], self.axis[last] + self.right[last]


@dataclass(frozen=True)
class Placing:
    """Places of slots between two borders, at a scale that may be traced."""

    layers: Layers
    blocks: Blocks
    reach: Mapping[str, Reach]

    def widths(self, scale: float) -> list[Width]:
        """What stands side by side at about a scale: in each rank, and on the widest way through blocks."""
        ranks = [self._row(rank, scale) for rank in self.layers.ranks]
        ends: dict[int, Width] = {}
        for block in self.blocks.order:
            ways = [self._way(slot, ends, scale) for slot in self.blocks.members[block]]
            ends[block] = max(ways, key=lambda way: way.at(scale))
        ways = [
            ends[self.blocks.of[slot]].plus(_width(reach.right, scale)) for slot, reach in self.reach.items()
        ]
        return [*ranks, max(ways, key=lambda way: way.at(scale))]

    def _way(self, slot: str, ends: Mapping[int, Width], scale: float) -> Width:
        """The way from the left border to the axis of a slot."""
        of_slot = _width(self.reach[slot].left, scale)
        if slot not in self.blocks.lefts:
            return of_slot
        mate = self.blocks.lefts[slot]
        before = ends[self.blocks.of[mate]].plus(_width(self.reach[mate].right, scale))
        return before.plus(Width(0, GAP)).plus(of_slot)

    def _row(self, rank: Sequence[str], scale: float) -> Width:
        total = Width(0, GAP * (len(rank) - 1))
        for slot in rank:
            for span in self.reach[slot][:2]:
                total = total.plus(_width(span, scale))
        return total

    def places(self, start: Any, end: Any, scale: Any) -> Places:
        """Where all slots stand between `start` and `end`."""
        room, size = concrete(end) - concrete(start), concrete(scale)
        needed = max(way.at(size) for way in self.widths(size))
        side_by_side = max(len(rank) for rank in self.layers.ranks)
        # neighbours share the room that is left over
        gap = min(WIDEST_GAP, GAP + max(0.0, room - needed) / (side_by_side + 1))
        plain = self._relaxed((concrete(start), concrete(end)), size, gap)
        return self._again(plain, (start, end), scale)

    def _sizes(self, scale: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        left = {slot: reach.left.at(scale) for slot, reach in self.reach.items()}
        right = {slot: reach.right.at(scale) for slot, reach in self.reach.items()}
        return left, right

    def _relaxed(self, borders: tuple[float, float], scale: float, gap: float) -> Places:
        """Move blocks towards what they are joined to, and apart, until little moves."""
        left, right = ({slot: concrete(x) for slot, x in side.items()} for side in self._sizes(scale))
        middle = sum(borders) / 2
        axis = self._between(dict.fromkeys(self.blocks.order, middle), left, right, gap, borders)
        for _ in range(ROUNDS):
            wanted = {block: self._wish(block, axis) for block in self.blocks.order}
            before, axis = axis, self._between(wanted, left, right, gap, borders)
            if max(abs(axis[block] - before[block]) for block in axis) < STILL:
                break
        places = Places({slot: axis[block] for slot, block in self.blocks.of.items()}, left, right)
        edges = [places.edges(rank) for rank in self.layers.ranks]
        shift = middle - (min(first for first, _ in edges) + max(last for _, last in edges)) / 2
        axis = {block: x + shift for block, x in axis.items()}
        return self._widened(self._between(axis, left, right, gap, borders), (left, right), borders)

    def _wish(self, block: int, axis: Mapping[int, Any]) -> Any:
        """Between the outermost of what its slots read, and of what reads them."""
        wishes = []
        for slot in self.blocks.members[block]:
            for near in (self.layers.below[slot], self.layers.above[slot]):
                others = [axis[self.blocks.of[mate]] for mate in near if self.blocks.of[mate] != block]
                if others:
                    wishes.append((min(others) + max(others)) / 2)
        return fsum(wishes) / len(wishes) if wishes else axis[block]

    def _between(
        self,
        wanted: Mapping[int, Any],
        left: Mapping[str, Any],
        right: Mapping[str, Any],
        gap: float,
        borders: tuple[Any, Any],
    ) -> dict[int, Any]:
        """Blocks near to where they are wanted, apart and between borders: the mean of two ways."""
        sizes = left, right
        first = self._pulled(self._pushed(wanted, sizes, gap, borders[0]), sizes, gap, borders[1])
        second = self._pushed(self._pulled(wanted, sizes, gap, borders[1]), sizes, gap, borders[0])
        return {block: (first[block] + second[block]) / 2 for block in first}

    def _pushed(
        self, wanted: Mapping[int, Any], sizes: tuple[Mapping[str, Any], ...], gap: float, border: Any
    ) -> dict[int, Any]:
        """Push each block to the right until it is clear of those on its left and of the border."""
        left, right = sizes
        pushed: dict[int, Any] = {}
        for block in self.blocks.order:
            limits = [wanted[block]]
            for slot in self.blocks.members[block]:
                mate = self.blocks.lefts.get(slot)
                start = border if mate is None else pushed[self.blocks.of[mate]] + (right[mate] + gap)
                limits.append(start + left[slot])
            pushed[block] = most(*limits)
        return pushed

    def _pulled(
        self, wanted: Mapping[int, Any], sizes: tuple[Mapping[str, Any], ...], gap: float, border: Any
    ) -> dict[int, Any]:
        """Pull each block to the left until it is clear of those on its right and of the border."""
        left, right = sizes
        pulled: dict[int, Any] = {}
        for block in reversed(self.blocks.order):
            limits = [wanted[block]]
            for slot in self.blocks.members[block]:
                mate = self.blocks.rights.get(slot)
                end = border if mate is None else pulled[self.blocks.of[mate]] - (left[mate] + gap)
                limits.append(end - right[slot])
            pulled[block] = least(*limits)
        return pulled

    def _widened(
        self, axis: Mapping[int, Any], sizes: tuple[dict[str, Any], ...], borders: tuple[Any, Any]
    ) -> Places:
        """The places of blocks; slots are widened towards what they read, as far as there is room."""
        places = Places({slot: axis[block] for slot, block in self.blocks.of.items()}, *sizes)
        start, end = borders
        for slot, reach in self.reach.items():
            reads = [places.axis[read] for read in self.layers.below[slot]]
            if not reach.spans or len(reads) < 2:  # noqa: PLR2004 - one stands under it anyway
                continue
            x, mate = places.axis[slot], self.blocks.lefts.get(slot, "")
            edge = places.axis[mate] + places.right[mate] + GAP if mate else start
            places.left[slot] = most(places.left[slot], least(x - least(*reads) + LANE, x - edge))
            mate = self.blocks.rights.get(slot, "")
            edge = places.axis[mate] - places.left[mate] - GAP if mate else end
            places.right[slot] = most(places.right[slot], least(most(*reads) - x + LANE, edge - x))
        return places

    def _again(self, plain: Places, borders: tuple[Any, Any], scale: Any) -> Places:
        """The same places by arithmetic alone: the widest rank side by side, the others by neighbours."""
        left, right = self._sizes(scale)
        middle = (borders[0] + borders[1]) / 2
        extents = [float(last - first) for first, last in map(plain.edges, self.layers.ranks)]
        widest = extents.index(max(extents))
        axis: dict[int, Any] = {}
        row = _side_by_side(self.layers.ranks[widest], left, right)
        for slot, place in row.items():
            axis[self.blocks.of[slot]] = _shifted(middle + place, plain.axis[slot])
        for rank in sorted(range(len(extents)), key=lambda rank: abs(rank - widest)):
            near = self.layers.below if rank > widest else self.layers.above
            for slot in self.layers.ranks[rank]:
                known = [axis[self.blocks.of[mate]] for mate in near[slot] if self.blocks.of[mate] in axis]
                between = (least(*known) + most(*known)) / 2 if len(known) > 1 else (*known, middle)[0]
                axis.setdefault(self.blocks.of[slot], _shifted(between, plain.axis[slot]))
        sizes = left, right
        # half a unit less than there is, as what is rounded may differ by its last digit
        axis = self._pushed(axis, sizes, GAP - 0.5, borders[0] - 0.5)
        return self._widened(self._pulled(axis, sizes, GAP - 0.5, borders[1] + 0.5), sizes, borders)


def _shifted(place: Any, plain: float) -> Any:
    """A place moved by a constant to where it is in this model."""
    offset = round(plain - concrete(place), 1)
    return place + offset if offset else place


def _side_by_side(rank: Sequence[str], left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """Places of the slots of a rank, from its middle."""
    ends: Any = 0.0
    places = {}
    for slot in rank:
        places[slot] = ends + left[slot]
        ends = places[slot] + right[slot] + GAP
    return {slot: place - (ends - GAP) / 2 for slot, place in places.items()}


def _width(span: SideRoom, scale: float) -> Width:
    """Features and units of which a span is the sum, at about this scale."""
    reached = concrete(span.features) * scale + span.fixed
    return Width(0, span.least) if reached < span.least else Width(span.features, span.fixed)
