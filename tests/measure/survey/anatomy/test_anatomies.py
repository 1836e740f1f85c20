"""Drawings of all presets and of hybrids: nothing is lost, read twice over, or read from nowhere."""

from collections import Counter
from functools import cache
from itertools import pairwise

import pytest

from archcli.load.presets import presets
from archcli.load.source import load, load_text
from archcli.measure.survey.wired import wired_forward
from archcli.modules.models.layers import LayerIndex
from archcli.wings.drawing.anatomy.anatomy import DrawnModel
from archcli.wings.drawing.anatomy.draft import INPUT, OUTPUT
from archcli.wings.drawing.anatomy.roles import role_of
from combinations.hybrids import HYBRIDS, hybrid

NAMES = [*presets(), *HYBRIDS]
PLAIN = {"scale", "aside", "view"}


@cache
def drawn(name):
    model = (load_text(hybrid(name), name) if name in HYBRIDS else load(name)).model
    counted = DrawnModel(model)
    return counted, counted.anatomy("params", None)


def failing(check):
    """The names for which a check yields something, with the first of it."""
    return {name: found[0] for name in NAMES if (found := list(check(name)))}


def graphs(name):
    anatomy = drawn(name)[1]
    yield from ((part.title, part.nodes) for part in anatomy.parts)
    yield from ((kind.path, kind.nodes) for kind in anatomy.kinds)


def misread(name):
    for title, nodes in graphs(name):
        known = set()
        for node in nodes:
            if node.id in known or not set(node.reads) <= known:
                yield title, node.id
            if (node.role == "input") == bool(node.reads):
                yield title, node.id, "ends"
            known.add(node.id)


@pytest.mark.long
def test_a_node_is_there_once_and_reads_nodes_before_it():
    assert not failing(misread)


def twice(name):
    for title, nodes in graphs(name):
        rows = Counter(row for node in nodes if node.role != "input" for row in set(node.rows))
        yield from ((title, row) for row, times in rows.items() if times > 1)


@pytest.mark.long
def test_a_row_is_in_one_node():
    assert not failing(twice)


def unlike_show(name):
    counted, anatomy = drawn(name)
    layers = {path for path in LayerIndex(counted.model).by_layer(counted.rows) if path}
    if {kind.path for kind in anatomy.kinds} != layers or len(layers) != len(anatomy.kinds):
        yield layers
    for kind in anatomy.kinds:
        if kind.times.value != len(kind.layers):
            yield kind.path
    for strip in anatomy.strips:
        if sum(cell.count for cell in strip.cells) != strip.n_layers.value:
            yield strip.title
        if any(cell.first + cell.count != after.first for cell, after in pairwise(strip.cells)):
            yield strip.title, "gaps"


@pytest.mark.long
def test_kinds_are_the_distinct_layers_of_show_and_cells_are_all_layers():
    assert not failing(unlike_show)


def lost(name):
    counted, anatomy = drawn(name)
    rows = {row.id: row for row in counted.rows}
    for part in anatomy.parts:
        shown = {row for node in part.nodes for row in node.rows}
        for row in rows.values():
            inside = row.id.startswith(f"{part.params.path}.") and row.weights
            # small weights that are left out on purpose: factors, tables of positions, biases, adapters
            if inside and row.id not in shown and role_of(row) not in PLAIN and row.group != "lora":
                yield part.title, row.id


@pytest.mark.long
def test_every_product_and_norm_of_a_part_is_drawn():
    found = failing(lost)
    # terms of relative positions in the scores, which have no node
    assert set(found) <= {"deberta-v3-base", "inkling"}


def astray(name):
    for kind in drawn(name)[1].kinds:
        known = {node.id: node for node in kind.nodes}
        if kind.spine[0] != INPUT or kind.spine[-1] != OUTPUT:
            yield kind.path
        for before, node in pairwise(kind.spine):
            if before not in known[node].reads or known[node].role == "part":
                yield kind.path, node


@pytest.mark.long
def test_the_spine_leads_past_all_parts():
    assert not failing(astray)


def test_layers_that_are_alike_are_those_of_show():
    model = load("minimax-text-01").model
    # seven lightning layers and one of attention, ten times
    assert Counter(
        len(row.layers) for row in wired_forward(model).rows if row.path.endswith("mixer_norm")
    ) == {70: 1}
