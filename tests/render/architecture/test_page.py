"""The page of a drawing: nothing overlaps, all is in its room, one scale, few things lost at the edges."""

from itertools import pairwise
from random import Random

import pytest

import archcli
from archcli.wings.drawing.anatomy.anatomy import anatomy
from archcli.wings.drawing.drawn import Figure, NumberedLine, Share
from archcli.wings.drawing.picture.architecture.page import foot
from archcli.wings.drawing.picture.architecture.page.boxes import MOST, OF_MANY, kind_boxes, part_boxes
from archcli.wings.drawing.picture.architecture.page.header import height
from archcli.wings.drawing.picture.architecture.page.packing import Room, pack
from archcli.wings.drawing.picture.architecture.page.printed import cut, lines_of
from archcli.wings.drawing.picture.architecture.page.sheet import kinds_title, sheet
from archcli.wings.drawing.picture.architecture.page.thumbnail import thumbnail
from archcli.wings.drawing.picture.architecture.style import width_of
from table import sampled_rows

MODELS = [
    "llama-3.1-8b",
    "deepseek-v3",
    "qwen3-next-80b-a3b",
    "t5-base",
    "gemma-3n-e2b",
    "zamba2-7b",
    "mamba-130m",
]


def drawn_of(name):
    return anatomy(archcli.load(name))


def written(words):
    return "".join(word.written for word in words)


def amount(value):
    return Figure(value, "params", "", "params")


@sampled_rows("name", MODELS, 4)
def test_boxes_are_in_their_room_and_apart(name):
    placed = sheet(drawn_of(name))
    places = [*placed.packed.kinds, *placed.packed.panels]
    boxes = [*placed.kinds, *placed.panels]
    for box, place in zip(boxes, places, strict=True):
        assert place.x >= 24
        assert place.x + place.width <= placed.width - 24 + 1e-6
        assert box.natural(0.0)[0] <= place.width + 1e-6
        assert box.height(place.width) <= place.height + 1e-6
        assert place.y + place.height <= placed.foot
    for i, one in enumerate(places):
        for other in places[i + 1 :]:
            apart_across = one.x + one.width <= other.x + 1e-6 or other.x + other.width <= one.x + 1e-6
            assert (
                apart_across or one.y + one.height <= other.y + 1e-6 or other.y + other.height <= one.y + 1e-6
            )


def test_a_box_too_wide_for_the_side_stands_below_the_strip():
    kinds, panels = kind_boxes(drawn_of("deepseek-v3")), part_boxes(drawn_of("deepseek-v3"))
    packed = pack(kinds, panels, Room(lambda y: 800.0 if y < 500 else 24.0, 976.0, 100.0, low=500.0), 216.0)
    assert all(place.x == 24.0 or place.y >= 500 for place in packed.panels)
    assert all(place.x + place.width <= 976.0 + 1e-6 for place in packed.panels)


def test_shares_of_a_bar_fill_it_and_differ_from_their_neighbours():
    chance = Random(5)  # noqa: S311
    hues = ["attention", "recurrent", "dense", "experts", "shared", "plain"]
    for _ in range(60):
        names = chance.choices(hues, k=chance.randint(1, 7))
        shares = [
            Share(f"share {i}", hue, amount(chance.randint(1, 10**6)), amount(chance.randint(0, 10**6)))
            for i, hue in enumerate(names)
        ]
        for read in (False, True):
            pieces = foot.segments(shares, 24.0, 952.0, read=read)
            assert sum(piece.width for piece in pieces) == pytest.approx(952.0 if pieces else 0.0)
            for left, right in pairwise(pieces):
                assert left.left + left.width == pytest.approx(right.left)
                assert left.texture != right.texture or foot._differ(left.share.hue, right.share.hue)


def test_labels_below_a_bar_neither_overlap_nor_are_crossed():
    chance = Random(7)  # noqa: S311
    for _ in range(200):
        stored = [int(10 ** chance.uniform(0, 9)) for _ in range(chance.randint(2, 7))]
        shares = [
            Share("routed experts"[: chance.randint(4, 14)], "plain", amount(n), amount(n)) for n in stored
        ]
        placed = foot._placed(foot.segments(shares, 24.0, 952.0, read=True), 24.0, "count")
        for i, (label, row) in enumerate(placed):
            assert label.start >= 24.0 - 1e-6
            assert label.end <= 1000.0
            for other, beside in placed[:i] + placed[i + 1 :]:
                # a leader ends in its own row: one that goes further down must not pass through this text
                assert beside < row or not label.start < other.leader < label.end
                assert beside != row or label.end <= other.start or other.end <= label.start


def test_what_is_read_is_the_end_of_what_is_stored():
    shares = [
        Share("attention", "attention", amount(100), amount(100)),
        Share("routed experts", "experts", amount(900), amount(30)),
        Share("tables", "plain", amount(50), amount(50)),
    ]
    assert foot.segments(shares, 0, 1, read=False)[0].share.name == "routed experts"


def test_a_long_name_puts_the_key_figures_below_it():
    short = drawn_of("gpt2")
    long = drawn_of("gpt2").__class__(
        **{**vars(short), "name": "a name that is as long as a folder's path " * 2}
    )
    assert height(long, 952.0) > height(short, 952.0)


def test_lines_break_between_words_and_keep_their_figures():
    line = NumberedLine("vocabulary ", amount(50257), " of ", amount(3), " tables")
    lines = lines_of(line, 100.0)
    assert " ".join(map(written, lines)) == "vocabulary 50,257 of 3 tables"
    assert [word.figure.value for words in lines for word in words if word.figure] == [50257, 3]
    assert [written(words) for words in lines_of("12 × (3 + 1)", 60.0)] == ["12 ×", "(3 + 1)"]
    assert cut("a name that does not fit", 60.0).endswith("…")
    assert width_of(cut("a name that does not fit", 60.0)) <= 60.0


def test_kinds_are_counted_in_words():
    assert [kinds_title(n) for n in (1, 2, 10, 11)] == [
        "One kind of layer",
        "Two kinds of layer",
        "Ten kinds of layer",
        "11 kinds of layer",
    ]


MANY = """
vocab_size: 1000
d_model: 64
norm: {kind: rmsnorm, eps: 1e-5}
groups:
"""
LAYER = """  - n_layers: 1
    layer: {kind: pre_norm, attention: {kind: mha, n_heads: 4}, ffn: {kind: mlp, activation: gelu, d_ff: %d}}
"""


@pytest.mark.long
def test_a_model_of_many_different_layers_is_drawn_as_runs(tmp_path):
    file = tmp_path / "many.yaml"
    file.write_text(MANY + "".join(LAYER % (100 + i) for i in range(150)))
    drawing = archcli.draw(file)
    text = drawing.svg()
    assert text.count("data-kind=") == 150
    assert text.count('class="cell"') < 150
    placed = sheet(drawing.anatomies[0])
    # the first whole, others of its wiring as differences from it
    assert sum(bool(box.graph.nodes) for box in placed.kinds) == 1
    assert sum(bool(box.graph.nodes or box.lines) for box in placed.kinds) == OF_MANY < MOST
    assert max(map(len, str(drawing).splitlines())) <= 100


@sampled_rows("name", MODELS, 4)
def test_a_thumbnail_is_small(name):
    assert len(thumbnail(drawn_of(name))) < 9_000
