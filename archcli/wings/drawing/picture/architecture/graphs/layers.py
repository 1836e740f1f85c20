"""Layered graph layout (Sugiyama): a rank for each node, and an order in each rank with few crossings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise, permutations
from math import fsum

SWEEPS = 6
"""The most passes over all ranks, up and down in turn."""
FEW = 4
"""All orders are tried of a rank with at most so many slots."""


@dataclass(frozen=True)
class RankSlot:
    """A place in a rank: of a node, or (`passing`) of an edge from `source` across this rank."""

    id: str
    rank: int
    source: str
    passing: bool = False


@dataclass
class Layers:
    """A graph in ranks.

    slots: by id.
    ranks: ids of slots from left to right, the rank of the inputs first.
    below, above: slots that a slot reads, in the rank below; those that read it, in the rank above.
    pinned: leftmost slots, one over the other: the residual stream.
    """

    slots: dict[str, RankSlot] = field(default_factory=dict)
    ranks: list[list[str]] = field(default_factory=list)
    below: dict[str, list[str]] = field(default_factory=dict)
    above: dict[str, list[str]] = field(default_factory=dict)
    pinned: frozenset[str] = frozenset()

    def nets(self, rank: int) -> dict[str, list[str]]:
        """Edges from a rank to the next: the readers of each slot."""
        return {slot: self.above[slot] for slot in self.ranks[rank] if self.above[slot]}

    def place(self) -> dict[str, int]:
        """The index of each slot in its rank, from the left."""
        return {slot: i for rank in self.ranks for i, slot in enumerate(rank)}


def layered(
    reads: Mapping[str, Sequence[str]],
    inputs: Iterable[str],
    spine: Sequence[str] = (),
    late: Iterable[str] = (),
) -> Layers:
    """Nodes in ranks: `reads` are the ids that each one reads, in the order in which they run.

    spine: nodes that stand leftmost, one over the other. late: nodes that stand right under their readers.
    """
    known = {node: list(dict.fromkeys(r for r in read if r in reads)) for node, read in reads.items()}
    heights = _heights(known, set(inputs), set(late))
    layers = _slots(known, heights, spine)
    _order(layers)
    return layers


def _heights(reads: Mapping[str, Sequence[str]], inputs: set[str], late: set[str]) -> dict[str, int]:
    """The longest path from an input to each node; a node that reads nothing stands under a reader."""
    heights: dict[str, int] = {}
    for node, read in reads.items():
        heights[node] = max((heights.get(r, 0) + 1 for r in read), default=0)
    for node in reversed([*reads]):
        readers = [heights[reader] for reader, read in reads.items() if node in read]
        if readers and ((not reads[node] and node not in inputs) or node in late):
            heights[node] = min(readers) - 1
    return heights


def _slots(reads: Mapping[str, Sequence[str]], heights: Mapping[str, int], spine: Sequence[str]) -> Layers:
    """A slot for each node and each rank that an output crosses; its readers share that slot."""
    layers = Layers(ranks=[[] for _ in range(max(heights.values(), default=0) + 1)])
    for node, height in heights.items():
        _add(layers, RankSlot(node, height, node))
    for node, read in reads.items():
        for source in read:
            last = source
            for rank in range(heights[source] + 1, heights[node]):
                slot = RankSlot(f"{source}@{rank}", rank, source, passing=True)
                if slot.id not in layers.slots:
                    _add(layers, slot)
                    _connect(layers, last, slot.id)
                last = slot.id
            _connect(layers, last, node)
    passed = [
        f"{low}@{rank}" for low, high in pairwise(spine) for rank in range(heights[low] + 1, heights[high])
    ]
    layers.pinned = frozenset(layers.slots) & {*spine, *passed}
    return layers


def _add(layers: Layers, slot: RankSlot) -> None:
    layers.slots[slot.id] = slot
    layers.ranks[slot.rank].append(slot.id)
    layers.below[slot.id] = []
    layers.above[slot.id] = []


def _connect(layers: Layers, low: str, high: str) -> None:
    layers.below[high].append(low)
    layers.above[low].append(high)


def _order(layers: Layers) -> None:
    """Order the ranks: sort by the mean place of neighbours (barycenter), then try swaps."""
    start = {slot: i for i, slot in enumerate(layers.slots)}
    best = None
    for sweep in range(SWEEPS):
        up = sweep % 2 == 0
        for rank in range(len(layers.ranks)) if up else reversed(range(len(layers.ranks))):
            _sort(layers, rank, layers.below if up or rank == len(layers.ranks) - 1 else layers.above, start)
        for rank in range(len(layers.ranks)):
            _improve(layers, rank)
        cost = sum(crossings(layers, rank) for rank in range(len(layers.ranks) - 1))
        if best is not None and cost >= best[0] and sweep > 1:
            break
        if best is None or cost < best[0]:
            best = cost, [list(rank) for rank in layers.ranks]
        if not cost:
            break
    layers.ranks = best[1] if best else layers.ranks


def _sort(
    layers: Layers, rank: int, neighbours: Mapping[str, Sequence[str]], start: Mapping[str, int]
) -> None:
    """Sort a rank by the mean place of neighbours; a slot without neighbours keeps its place."""
    place = layers.place()

    def mean(slot: str) -> float:
        near = [_centred(layers, place, neighbour) for neighbour in neighbours[slot]]
        return fsum(near) / len(near) if near else _centred(layers, place, slot)

    layers.ranks[rank].sort(key=lambda slot: (slot not in layers.pinned, mean(slot), start[slot]))


def _centred(layers: Layers, place: Mapping[str, int], slot: str) -> float:
    """The place of a slot, from the middle of its rank."""
    return place[slot] - (len(layers.ranks[layers.slots[slot].rank]) - 1) / 2


def _improve(layers: Layers, rank: int) -> None:
    """Try orders of a rank, all of up to FEW slots, else single swaps and moves, and keep the best."""
    slots = layers.ranks[rank]
    best = _around(layers, rank)
    if not best:
        return
    orders = permutations(slots) if len(slots) <= FEW else _swapped(slots)
    chosen = slots
    for order in orders:
        layers.ranks[rank] = list(order)
        cost = _around(layers, rank)
        if cost < best and (order[0] in layers.pinned or layers.pinned.isdisjoint(order)):
            best, chosen = cost, list(order)
    layers.ranks[rank] = chosen


def _swapped(slots: Sequence[str]) -> Iterable[list[str]]:
    """A rank with each two of its slots swapped, and each one moved to either end."""
    for i, j in combinations(range(len(slots)), 2):
        order = list(slots)
        order[i], order[j] = order[j], order[i]
        yield order
    for slot in slots:
        rest = [slot_left for slot_left in slots if slot_left != slot]
        yield [slot, *rest]
        yield [*rest, slot]


def _around(layers: Layers, rank: int) -> int:
    """How often edges cross below and above a rank."""
    below = crossings(layers, rank - 1) if rank else 0
    return below + (crossings(layers, rank) if rank + 1 < len(layers.ranks) else 0)


def crossings(layers: Layers, rank: int) -> int:
    """How often edges cross between a rank and the next; edges of one slot never cross each other."""
    low = {slot: i for i, slot in enumerate(layers.ranks[rank])}
    high = {slot: i for i, slot in enumerate(layers.ranks[rank + 1])}
    edges = [(low[slot], high[reader]) for slot in low for reader in layers.above[slot]]
    return sum((a - c) * (b - d) < 0 for (a, b), (c, d) in combinations(edges, 2))
