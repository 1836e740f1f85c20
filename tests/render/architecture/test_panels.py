"""Panels and blocks: nothing overlaps at any scale, bars are to scale, and figures change no height."""

import random
import re

import pytest

from archcli.api.asking.subject import given
from archcli.wings.drawing.anatomy.anatomy import anatomy
from archcli.wings.drawing.drawn import ExpertChoice
from archcli.wings.drawing.picture.architecture.panels import common_scale, panel, wiring
from archcli.wings.drawing.picture.architecture.redraw import Redraw
from archcli.wings.drawing.picture.architecture.shapes import svg_of
from archcli.wings.drawing.picture.architecture.style import path
from covering import COVERING
from drawn.overlaps import boxes, flat, lines, overlaps, texts
from drawn.specimens import KINDS, PARTS, fig, llama, mixture, mla
from table import every_row

PAGE = 952.0
STREAM, STEPS = "stream s-ink", re.compile(r"\.0(?=\D)")


def faults(drawn, width, scale):
    return list(overlaps(drawn.shapes(0, 0, width, scale), width, drawn.height(width)))


@pytest.mark.long
@every_row("scale", [0.001, 0.004, 0.01, 0.03, 0.1])
@every_row("name", PARTS)
def test_nothing_overlaps_in_a_panel_of_any_scale_and_width(name, scale):
    drawn = panel(PARTS[name])
    needed = drawn.natural(scale)[0]
    for more in (0, 7, 60, 400):
        assert faults(drawn, needed + more, scale) == []


@pytest.mark.parametrize("name", KINDS)
def test_nothing_overlaps_in_the_wiring_of_a_layer(name):
    drawn = wiring(KINDS[name])
    needed = drawn.natural(0.0)[0]
    for more in (0, 7, 60, 400):
        assert faults(drawn, needed + more, 0.01) == []


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", COVERING)
def test_nothing_overlaps_in_the_panels_and_layers_of_a_preset(name):
    chance = random.Random(name)  # noqa: S311 no secret hangs on it
    model = anatomy(given(name).model)
    for drawn in (*map(panel, model.parts), *map(wiring, model.kinds)):
        largest = common_scale([(drawn, PAGE)])
        for share in (1, chance.uniform(0.3, 1), chance.uniform(0.05, 0.5)):
            width = drawn.natural(largest * share)[0] + chance.choice((0, 0, 5, 50, 300))
            assert faults(drawn, width, largest * share) == []


def test_a_fault_is_found():
    shapes = [*panel(llama()).shapes(0, 0, 460, 0.0136)]
    assert list(overlaps(shapes, 460, 320)) == []
    assert ("leaves the frame", "Grouped-query attention") in overlaps(shapes, 230, 320)
    found = {fault for fault, *_ in overlaps([*shapes, *panel(mla()).shapes(30, 20, 460, 0.007)], 500, 400)}
    assert "texts overlap" in found
    across = [path(f"M0 {y}H460", "edge s-line") for y in range(40, 240, 10)]
    found = {fault for fault, *_ in overlaps([*shapes, *across], 460, 320)}
    assert found == {"line through a text", "line through a box"}


@pytest.mark.parametrize("name", PARTS)
def test_bars_are_as_wide_as_their_figures(name):
    drawn = panel(PARTS[name])
    scale = common_scale([(drawn, PAGE)])
    bars = [
        (shape.attributes["width"], shape.figure.value)
        for shape, _, _ in flat(drawn.shapes(0, 0, PAGE, scale))
        if shape.tag == "rect" and shape.figure is not None and "held" not in shape.attributes["class_"]
    ]
    assert len(bars) >= 4
    assert [width for width, _ in bars] == pytest.approx([value * scale for _, value in bars])


@pytest.mark.parametrize("name", PARTS)
def test_no_scale_changes_a_height(name):
    drawn = panel(PARTS[name])
    assert len({drawn.height(PAGE), panel(PARTS[name]).height(PAGE)}) == 1
    shapes = [[*boxes(drawn.shapes(0, 0, PAGE, scale))] for scale in (0.002, 0.008)]
    tops = [sorted((box.top, box.name) for box in drawing) for drawing in shapes]
    assert tops[0] == tops[1]


def test_one_scale_is_the_largest_at_which_all_panels_fit():
    rooms = [(panel(PARTS["llama"]), 460.0), (panel(PARTS["network"]), 320.0), (panel(PARTS["mla"]), 520.0)]
    scale = common_scale(rooms)
    assert all(drawn.natural(scale)[0] <= room + 0.01 for drawn, room in rooms)
    assert any(drawn.natural(scale * 1.08)[0] > room for drawn, room in rooms)


@pytest.mark.sample(4, whole=True)
@pytest.mark.parametrize("name", PARTS)
def test_traced_figures_are_drawn_as_plain_ones(name):
    drawn = panel(PARTS[name])
    plain = svg_of(drawn.shapes(0, 0, 500, common_scale([(drawn, 500.0)])))
    redraw = Redraw()
    again = panel(redraw.traced(PARTS[name]))
    traced = redraw.svg(again.shapes(0, 0, 500, common_scale([(again, 500.0)])))
    assert _plain(traced) == _plain(plain)
    assert redraw.script()


def _plain(svg):
    """Without numbers of elements, and whole numbers without a point."""
    return STEPS.sub("", re.sub(r' data-n="\d+"', "", svg))


@pytest.mark.parametrize("name", KINDS)
def test_the_stream_is_one_vertical_line_left_of_all_branches(name):
    drawn = wiring(KINDS[name])
    width = drawn.natural(0.0)[0]
    edges = [*lines(drawn.shapes(0, 0, width, 0.01))]
    stream = [edge for edge in edges if edge.name]
    axis = {round(edge.left, 1) for edge in stream} | {round(edge.right, 1) for edge in stream}
    assert len(axis) == 1
    others = [edge for edge in edges if not edge.name]
    assert min(edge.left for edge in others) >= min(axis) - 0.1


def test_a_block_says_which_kind_of_layer_it_is():
    (block,) = wiring(KINDS["pre_norm"]).shapes(0, 0, 320, 0.01)
    assert block.attributes == {"data_kind": "layers.0"}


@pytest.mark.parametrize(("count", "chosen"), [(8, 2), (64, 6), (256, 8), (512, 10), (60, 4), (7, 7), (1, 1)])
def test_each_expert_has_a_cell_and_a_token_runs_as_many_as_it_chooses(count, chosen):
    part = mixture(experts=count, groups=None)
    choice = ExpertChoice(fig(count), fig(chosen), None, None)
    nodes = tuple(
        node if node.role != "experts" else _with(node, choice=choice, inner=()) for node in part.nodes
    )
    drawn = panel(_with(part, nodes=nodes))
    shapes = [shape for shape, _, _ in flat(drawn.shapes(0, 0, PAGE, 0.01))]
    tint, solid = (
        {
            (shape.attributes["x"], shape.attributes["y"])
            for shape in shapes
            if shape.tag == "rect" and shape.figure is None and shape.attributes["class_"].startswith(class_)
        }
        for class_ in ("tint-experts", "solid-experts")
    )
    assert len(tint) == count
    assert len(solid) == chosen
    assert solid <= tint


def _with(record, **changes):
    return type(record)(**{**vars(record), **changes})


def test_each_number_in_a_text_has_an_address():
    shapes = [shape for shape, _, _ in flat(panel(llama()).shapes(0, 0, 460, 0.0136)) if shape.tag == "text"]
    written = {
        piece.content: piece.figure
        for shape in shapes
        for piece in (shape.inside or (shape,))
        if any(char.isdigit() for char in piece.content) and piece.content != "32 heads on 8"
    }
    assert {"32", "128", "8", "4,096", "2.00 KiB", "41.9M"} == set(written)
    assert all(figure is not None for figure in written.values())


def test_a_panel_is_no_higher_for_being_wider():
    for part in PARTS.values():
        drawn = panel(part)
        heights = [drawn.height(width) for width in (500, 700, 950)]
        assert heights == sorted(heights, reverse=True)
        assert [*texts(drawn.shapes(0, 0, 950, 0.002))]
