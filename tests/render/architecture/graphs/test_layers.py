"""A graph in ranks: what reads stands higher, few edges cross, and blocks stand apart."""

import random
from itertools import pairwise

import pytest

from archcli.wings.drawing.picture.architecture.graphs.blocks import blocks_of
from archcli.wings.drawing.picture.architecture.graphs.layers import crossings, layered
from archcli.wings.drawing.picture.architecture.graphs.places import GAP, Placing, Reach, SideRoom
from table import sampled_rows


def read(text):
    """`q: x; o: q k` as the reads of nodes."""
    pairs = (line.partition(":") for line in text.split(";"))
    return {node.strip(): reads.split() for node, _, reads in pairs}


ATTENTION = read("x:; q: x; k: x; v: x; core: q k v; o: core; y: o")
GATED = read("x:; g: x; q: x; k: x; v: x; core: q k v; times: core g; o: times")
LATENT = read("x:; qa: x; qb: qa; kva: x; kvb: kva; core: qb kvb kva; o: core")


def crossed(layers):
    return sum(crossings(layers, rank) for rank in range(len(layers.ranks) - 1))


def test_a_node_stands_over_all_that_it_reads():
    layers = layered(LATENT, ["x"])
    assert [{slot for slot in rank if "@" not in slot} for rank in layers.ranks] == [
        {"x"},
        {"qa", "kva"},
        {"qb", "kvb"},
        {"core"},
        {"o"},
    ]
    assert "kva@2" in layers.ranks[2]


@pytest.mark.parametrize("reads", [ATTENTION, GATED, LATENT])
def test_what_can_be_drawn_without_crossings_is(reads):
    assert crossed(layered(reads, ["x"])) == 0


def test_a_gate_that_joins_late_stands_outermost():
    rank = layered(GATED, ["x"]).ranks[1]
    assert "g" in (rank[0], rank[-1])


def test_what_comes_from_elsewhere_stands_under_its_reader():
    layers = layered(read("x:; memory:; n: x; att: n; cross: att memory"), ["x"])
    assert layers.slots["memory"].rank == layers.slots["att"].rank


def test_the_spine_stands_leftmost():
    reads = read("x:; n: x; att: n; add: x att; m: add; ffn: m; sum: add ffn")
    layers = layered(reads, ["x"], ["x", "add", "sum"])
    assert [rank[0].partition("@")[0] for rank in layers.ranks] == ["x", "x", "x", "add", "add", "add", "sum"]
    blocks = blocks_of(layers)
    assert len({blocks.of[rank[0]] for rank in layers.ranks}) == 1


def forged(seed):
    """The reads of a random graph of up to 25 nodes."""
    chance = random.Random(seed)  # noqa: S311 no secret hangs on it
    nodes = [f"n{i}" for i in range(chance.randint(2, 25))]
    reads = {"n0": []}
    for i, node in enumerate(nodes[1:], 1):
        reads[node] = chance.sample(nodes[:i], min(i, chance.choice((1, 1, 1, 2, 3))))
    return reads


@sampled_rows("seed", range(40), 4)
def test_slots_of_any_graph_stand_apart_between_their_borders(seed):
    layers = layered(forged(seed), ["n0"])
    chance = random.Random(seed)  # noqa: S311 no secret hangs on it
    reach = {
        slot: Reach(
            SideRoom(chance.randint(0, 2000)),
            SideRoom(chance.randint(0, 2000), chance.uniform(0, 60)),
            spans=True,
        )
        for slot in layers.slots
    }
    placing = Placing(layers, blocks_of(layers), reach)
    scale = chance.uniform(0.001, 0.05)
    needed = max(way.at(scale) for way in placing.widths(scale))
    for room in (needed, needed * 1.4):
        places = placing.places(10, 10 + room, scale)
        for rank in layers.ranks:
            start, end = places.edges(rank)
            assert start >= 9
            assert end <= 11 + room
            for a, b in pairwise(rank):
                apart = places.axis[b] - places.left[b] - places.axis[a] - places.right[a]
                assert apart >= GAP - 1


@sampled_rows("seed", range(40), 4)
def test_each_edge_goes_from_a_rank_to_the_next_and_comes_from_its_source(seed):
    reads = forged(seed)
    layers = layered(reads, ["n0"])
    for slot, below in layers.below.items():
        assert all(layers.slots[low].rank == layers.slots[slot].rank - 1 for low in below)
        if slot in reads:
            assert sorted(layers.slots[low].source for low in below) == sorted(set(reads[slot]))
