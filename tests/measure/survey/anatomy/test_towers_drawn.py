"""Where the vectors of towers and encoders enter a model, as the presets state it: all that have towers."""

import re
from xml.etree import ElementTree as ET

import pytest
import yaml

import archcli
from archcli.load.presets import preset_text, presets
from drawn.drawings import drawing

SVG = "{http://www.w3.org/2000/svg}"
WITH_TOWERS = [name for name in presets() if "\ntowers:" in preset_text(name)]
UNREAD = {"llava-1.5-7b": 23, "llava-1.6-mistral-7b": 23}
"""Presets whose vectors are taken before the last layer, which leaves it unread."""


def stated(name):
    """The towers of a preset as its YAML states them."""
    return yaml.safe_load(preset_text(name))["towers"]


def cells(svg, column=0):
    """(top, bottom) of each layer's cell in a column, the left one first, by its number."""
    root = ET.fromstring(svg)  # noqa: S314 - a drawing of our own
    groups = [group for group in root.iter(f"{SVG}g") if group.get("data-model")] or [root]
    found = {}
    for cell in groups[column].iter(f"{SVG}g"):
        if cell.get("class") == "cell":
            half = next(cell.iter(f"{SVG}rect"))
            top = float(half.get("y"))
            found[int(cell.get("data-layer"))] = (top, top + float(half.get("height")))
    return found


def heads(svg):
    """(x, y) of the tips of arrows that point to the left."""
    tips = re.findall(r'd="M (\S+) \S+ L (\S+) (\S+) L \1 \S+ Z"', svg)
    return [(float(tip), float(y)) for x, tip, y in tips if float(tip) < float(x)]


def entered(svg):
    """The layers of the left column that an arrow points into, by the heights of their cells."""
    beside = 24.0 + 28.0 + 90.0  # the right edge of the cells: margin, numbers, cells
    levels = [y for x, y in heads(svg) if abs(x - beside) < 0.06]
    return {n for n, (top, end) in cells(svg).items() for y in levels if top - 2 <= y <= end}


def test_all_presets_with_towers_are_asked():
    assert len(WITH_TOWERS) == 25


@pytest.mark.sample(6, whole=True)
@pytest.mark.parametrize("name", WITH_TOWERS)
def test_vectors_leave_a_tower_where_its_preset_says(name):
    anatomy = archcli.draw(name).anatomies[0]
    for tower, drawn in zip(stated(name), anatomy.towers, strict=True):
        joins, layers = drawn.strips[-1].joins, sum(group["n_layers"] for group in tower["model"]["groups"])
        behind = [] if "after" not in tower else [tower["after"]]
        assert [number + 1 for number in joins.taken] == [*behind, *tower.get("beside", ())]
        assert list(joins.tapped) == tower.get("taps", [])
        assert joins.unread == UNREAD.get(name) == (behind[0] if behind and behind[0] < layers else None)
        assert joins.crosses is tower.get("crosses", False)
        assert list(anatomy.strips[-1].joins.added) == [*range(len(tower.get("taps", ())))]


@pytest.mark.sample(6, whole=True)
@pytest.mark.parametrize("name", WITH_TOWERS)
def test_a_tower_is_named_whole_with_letters_of_its_own_and_the_size_of_what_it_reads(name):
    anatomy = archcli.draw(name).anatomies[0]
    letters = [part.letter for column in (anatomy, *anatomy.towers) for part in column.parts]
    assert len(set(letters)) == len(letters)
    for tower, drawn in zip(stated(name), anatomy.towers, strict=True):
        part = tower.get("part", "vision_tower")
        assert {letter.letter[0] for letter in drawn.parts} == {part[0].upper()}
        caption = drawn.headline[-1][1]
        front_end = tower["model"]["front_end"]
        height, width = front_end.get("image_size", (None, None))
        tiles = front_end.get("tiles", 1)
        if part == "vision_tower":
            assert caption == f"FLOP per image of {height * tiles:,} × {width:,}"
        else:
            assert caption == "FLOP per sound of 3,000 frames"
            assert "30 s of sound at a time" in drawn.subtitle
    titles = re.findall(r'class="size-title ink"[^>]*>([^<]*)<', drawing(name))
    parts = [tower.get("part", "vision_tower").replace("_", " ").capitalize() for tower in stated(name)]
    assert titles == [name, *parts]


@pytest.mark.parametrize("name", ["llama-3.2-11b-vision", "qwen3-vl-8b", "qwen3-vl-30b-a3b", "llava-1.5-7b"])
def test_arrows_point_into_the_layers_that_vectors_enter(name):
    """Cross attention as rows of `show` have it; behind the first layers as many as there are taps."""
    rows = archcli.show(name, image=["2240x560"] if name.startswith("llama-3.2") else []).rows
    crossing = {n for row in rows if ".cross_attention." in row["path"] for n in row["layers"]}
    tapped = {*range(len(stated(name)[0].get("taps", ())))}
    svg = drawing(name)
    assert entered(svg) == crossing | tapped
    # the embedding, below layer 0, is pointed at unless layers read the vectors instead
    lowest = max(end for _, end in cells(svg).values())
    assert any(y > lowest + 14 for _, y in heads(svg)) is not bool(crossing)


@pytest.mark.parametrize("name", ["whisper-small", "t5-base", "bart-large"])
def test_an_encoder_leads_into_each_layer_of_its_decoder(name):
    rows = archcli.show(name).rows
    crossing = {n for row in rows if ".cross_attention." in row["path"] for n in row["layers"]}
    n_layers = yaml.safe_load(preset_text(name))["decoder"]["groups"][0]["n_layers"]
    svg = drawing(name)
    assert crossing == {*range(n_layers)}
    beside = 24.0 + 28.0 + 90.0
    assert len([x for x, _ in heads(svg) if abs(x - beside) < 0.06]) == n_layers
    assert f"encoder: read by layers 0–{n_layers - 1}" in str(archcli.draw(name))


def test_what_feeds_nothing_leads_to_nothing():
    """LLaVA-1.5 has 24 layers and takes its vectors behind 23: pooling is no way to the projector."""
    drawn = archcli.draw("llava-1.5-7b")
    tower = drawn.anatomies[0].towers[0]
    assert tower.strips[0].after == ("pooling", "projector")
    assert tower.strips[0].joins.idle == ("pooling",)
    assert "vectors are taken behind layer 22; layer 23 and pooling feed nothing" in str(drawn)
    assert re.search(r"projector\n +pooling, which feeds nothing\n", str(drawn))
    onevision = archcli.draw("llava-onevision-qwen2-0.5b").anatomies[0].towers[0].strips[0]
    assert (onevision.after, onevision.joins.idle) == (("norm", "projector"), ("norm",))


def test_states_of_five_layers_join_the_last_of_llama_vision():
    """Six states of 1,280 features stand side by side."""
    (tower,) = stated("llama-3.2-11b-vision")
    width = tower["model"]["d_model"] * (1 + len(tower["beside"]))
    assert f"states behind layers 3, 7, 15, 23, 30 join the last: {width:,} wide" in str(
        archcli.draw("llama-3.2-11b-vision")
    )


@pytest.mark.parametrize(("name", "label"), [("llava-1.5-7b", "quick GELU"), ("gemma-3-4b-vision", "GELU")])
def test_an_activation_is_named_as_itself(name, label):
    activation = stated(name)[0]["model"]["groups"][0]["layer"]["ffn"]["activation"]
    assert (activation == {"kind": "swish", "beta": 1.702}) is (label == "quick GELU")
    labels = {node.label for part in archcli.draw(name).anatomies[0].towers[0].parts for node in part.nodes}
    assert label in labels
    assert not labels & {"Swish"}
