"""Edges of a layered graph: vertical from slot to slot, horizontal on tracks between ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any, NamedTuple

from archcli.wings.drawing.picture.architecture.graphs.blocks import Blocks
from archcli.wings.drawing.picture.architecture.graphs.layers import Layers
from archcli.wings.drawing.picture.architecture.graphs.places import Places
from archcli.wings.drawing.picture.architecture.numbers import concrete, least, most

ARROW, TRACK, LOW = 11.0, 6.0, 5.0
"""Heights between ranks: of an arrow, of each track more, and where no edge ends in an arrow."""
TIP = 3.0
"""A line ends so far from what its arrow touches: the head reaches over it."""
SIDE = 8.0
FEW = 4
INSET = 6.0
STRAIGHT = 0.5
"""A line whose ends are so little apart looks straight."""


class EdgeEnd(NamedTuple):
    """How an edge ends: `straight` up, at the `side` of a ring, or on a `track` and then up."""

    slot: str
    reader: str
    way: str


class EdgeLine(NamedTuple):
    """A drawn edge: its points, whether it has a head, is the stream itself, or branches off from it."""

    points: tuple[tuple[Any, Any], ...]
    head: bool
    stream: bool
    branch: bool = False


@dataclass(frozen=True)
class Sides:
    """What a layout knows of slots beside their places: rings, and boxes over all that they read.

    starts: units from the lower edge of a rank to where the edges of a slot start. touching: ranks
    whose slots follow on what they read without an arrow, and the units between.
    lowered: slots whose edges start below their upper edge.
    """

    rings: frozenset[str]
    spans: frozenset[str]
    starts: Mapping[str, float]
    touching: Mapping[int, float]
    lowered: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Routes:
    """The edges of a layered graph, and the room that they take between ranks."""

    layers: Layers
    blocks: Blocks
    sides: Sides

    def ports(self, rank: int) -> list[EdgeEnd]:
        """How each edge from a rank to the next ends."""
        return [
            EdgeEnd(low, high, self._way(low, high))
            for low, readers in self.layers.nets(rank).items()
            for high in readers
        ]

    def channel(self, rank: int) -> float:
        """Units between a rank and the next."""
        if rank + 1 in self.sides.touching:
            return self.sides.touching[rank + 1]
        tracks = {port.slot for port in self.ports(rank) if port.way == "track"}
        ends = [port for port in self.ports(rank) if not self.layers.slots[port.reader].passing]
        heads = any(
            port.way != "side" and not {port.slot, port.reader} <= self.layers.pinned for port in ends
        )
        return (ARROW if heads else LOW) + TRACK * len(tracks)

    def _way(self, low: str, high: str) -> str:
        if self.blocks.of[low] == self.blocks.of[high]:
            return "straight"
        if high in self.sides.spans:
            return "straight" if self._under(low, high) else "track"
        return "side" if high in self.sides.rings and self._from_side(low, high) else "track"

    def _under(self, low: str, high: str) -> bool:
        """Whether a slot stands under a box over all that it reads, and under no neighbour of it."""
        rank = self.layers.ranks[self.layers.slots[high].rank]
        if any(self.blocks.of[slot] == self.blocks.of[low] for slot in rank):
            return False
        order = self.layers.ranks[self.layers.slots[low].rank].index
        place = rank.index(high)
        lefts = [order(read) for slot in rank[:place] for read in self.layers.below[slot]]
        rights = [order(read) for slot in rank[place + 1 :] for read in self.layers.below[slot]]
        return all(i < order(low) for i in lefts) and all(i > order(low) for i in rights)

    def _from_side(self, low: str, high: str) -> bool:
        """Whether an edge reaches a ring from its side: nothing stands between, and no other one does."""
        reads = sorted(self.layers.below[high], key=self.layers.ranks[self.layers.slots[low].rank].index)
        axis = [slot for slot in reads if self.blocks.of[slot] == self.blocks.of[high]]
        middle = reads.index(axis[0]) if axis else (len(reads) - 1) / 2
        place = reads.index(low)
        if place == middle or self.layers.above[low] != [high]:
            return False
        mate = self.blocks.rights.get(high) if place > middle else self.blocks.lefts.get(high)
        if mate is None:
            return True
        lows = self.layers.ranks[self.layers.slots[low].rank]
        between = [lows.index(slot) for slot in self.layers.below[mate]]
        return all(i > lows.index(low) if place > middle else i < lows.index(low) for i in between)

    def lines(
        self, places: Places, tops: Mapping[int, float], lows: Mapping[int, float]
    ) -> Iterator[EdgeLine]:
        """All edges; `tops` and `lows` are the upper and lower edges of ranks."""
        for rank in range(len(self.layers.ranks) - 1):
            ports = self.ports(rank)
            tracks = self._tracks(ports, places, lows[rank + 1], tops[rank])
            for port in ports:
                if self._touches(port):
                    continue
                yield self._line(port, places, tracks.get(port.slot, (lows[rank + 1] + tops[rank]) / 2), lows)

    def _touches(self, port: EdgeEnd) -> bool:
        """Whether an edge needs no line, as its ends touch."""
        rank = self.layers.slots[port.reader].rank
        passing = self.layers.slots[port.reader].passing
        return rank in self.sides.touching and not passing and port.slot not in self.sides.lowered

    def _line(self, port: EdgeEnd, places: Places, track: float, lows: Mapping[int, float]) -> EdgeLine:
        low, high = self.layers.slots[port.slot], self.layers.slots[port.reader]
        x = places.axis[port.slot]
        # an edge that passes a rank starts at the lower edge of it
        start = lows[low.rank] - self.sides.starts.get(port.slot, 0.0)
        end = lows[high.rank]
        stream = {port.slot, port.reader} <= self.layers.pinned
        head = not high.passing and not stream and high.rank not in self.sides.touching
        stop = end + (TIP if head else 0)
        goal = places.axis[port.reader]
        if port.way == "side" and self._is_clear(port, places):
            y = end - SIDE
            away = SIDE + TIP
            goal = goal + away if concrete(x) > concrete(goal) else goal - away
            return EdgeLine(((x, start), (x, y), (goal, y)), head=True, stream=False)
        spans = port.reader in self.sides.spans
        if spans:
            first = goal - places.left[port.reader] + INSET
            goal = least(most(x, first), goal + places.right[port.reader] - INSET)
        if port.way == "straight" and abs(concrete(goal) - concrete(x)) < STRAIGHT:
            return EdgeLine(((x, start), (x, stop)), head, stream)
        branch = port.slot in self.layers.pinned
        return EdgeLine(((x, start), (x, track), (goal, track), (goal, stop)), head, stream, branch)

    def _is_clear(self, port: EdgeEnd, places: Places) -> bool:
        """Whether an edge that ends at the side of a ring passes no neighbour of the ring on its way."""
        x, ring = concrete(places.axis[port.slot]), concrete(places.axis[port.reader])
        if abs(x - ring) <= 2 * SIDE:
            return False
        mate = (self.blocks.rights if x > ring else self.blocks.lefts).get(port.reader)
        if mate is None:
            return True
        near = places.axis[mate] - places.left[mate] if x > ring else places.axis[mate] + places.right[mate]
        return x < concrete(near) if x > ring else x > concrete(near)

    def _tracks(
        self, ports: Sequence[EdgeEnd], places: Places, upper: float, lower: float
    ) -> dict[str, float]:
        """The height of each track: those whose lines then cross least."""
        reads: dict[str, list[str]] = {}
        for port in ports:
            if port.way == "track":
                reads.setdefault(port.slot, []).append(port.reader)
        starts = {slot: concrete(places.axis[slot]) for slot in reads}
        ends = {slot: [concrete(places.axis[high]) for high in highs] for slot, highs in reads.items()}
        slots = list(reads)
        if 1 < len(slots) <= FEW:
            slots = list(min(permutations(slots), key=lambda order: _cost([*order], starts, ends)))
        top = upper + ARROW - TRACK / 2
        step = (lower - top) / (len(slots) + 1)
        return {slot: lower - step * (i + 1) for i, slot in enumerate(slots)}


def _cost(order: Sequence[str], starts: Mapping[str, float], ends: Mapping[str, Sequence[float]]) -> int:
    """How often lines cross if their tracks stand in this order, the first lowest."""
    cost = 0
    for low, high in combinations(order, 2):
        across = {
            slot: (min(starts[slot], *ends[slot]), max(starts[slot], *ends[slot])) for slot in (low, high)
        }
        cost += across[low][0] < starts[high] < across[low][1]
        cost += sum(across[high][0] < end < across[high][1] for end in ends[low])
    return cost
