"""All that runs is in a drawing, in few units of height, and nothing is joined that is not joined."""

import re
from dataclasses import replace

import pytest

import archcli
from archcli.load.presets import preset_text, presets
from drawn.drawings import columns_of, document, drawing
from drawn.whole import joined_wrongly, left_out

HIGHEST = 2000
HEIGHT = re.compile(r'viewBox="0 0 \d+ (\d+)"')


def shows(name):
    return [document("show", column) for column in columns_of(name)]


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", presets())
def test_all_that_runs_is_drawn(name):
    svg = drawing(name)
    assert [row for show in shows(name) for row in left_out(svg, show)] == []
    assert int(HEIGHT.search(svg)[1]) <= HIGHEST


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", presets())
def test_what_is_joined_is_read(name):
    (drawn,) = archcli.draw(name).anatomies
    for anatomy, show in zip((drawn, *drawn.towers), shows(name), strict=True):
        rows = {row["id"]: row for row in show["rows"]}
        for of in (*anatomy.kinds, *anatomy.parts):
            assert list(joined_wrongly(of.nodes, rows)) == []


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", presets())
def test_panels_have_texts_of_their_own(name):
    (drawn,) = archcli.draw(name).anatomies
    for anatomy in (drawn, *drawn.towers):
        texts = [(part.title, *part.lines) for part in anatomy.parts]
        assert len({*texts}) == len(texts)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", presets())
def test_the_head_has_the_fields_of_the_preset(name):
    model, (drawn,) = archcli.load(name), archcli.draw(name).anatomies
    file = preset_text(name)
    stated = re.search(r"n_streams: (\d+)|kind: altup.*?inputs: (\d+)", file)
    usual = "4" if re.search(r"kind: (altup|hyper|low_rank_hyper)\b", file) else None  # the docs' default
    streams = stated[1] or stated[2] if stated else usual
    width = f"d_model {model.d_model:,}" + (f" × {streams} streams" if streams else "")
    assert width in drawn.subtitle.split(" · ")
    pieces = drawn.settings.split(" · ")
    assert (model.max_seq_len is None) or pieces[0] == f"context {model.max_seq_len:,}"
    assert (model.released is None) or pieces[-1] == str(model.released)


SVG = """<svg xmlns="http://www.w3.org/2000/svg"><text>softmax<tspan>ALiBi</tspan></text>
<rect><title>q, layers.0.attention.q_proj</title></rect></svg>"""
ROW = {"params": 0, "cached": None, "marks": [], "op": "Linear", "reads": ["input"]}
SHOWN = [
    ROW | {"id": "layers.0.attention.q_proj", "params": 4},
    ROW | {"id": "layers.3.attention.q_proj", "params": 4},
    ROW | {"id": "layers.0.attention.attend", "marks": ["ALiBi"]},
]


@pytest.mark.parametrize(
    ("old", "new", "missing"),
    [
        ("ALiBi", "ALiBi", []),
        ("ALiBi", "causal", ["layers.0.attention.attend"]),
        ("q_proj", "k_proj", ["layers.0.attention.q_proj", "layers.3.attention.q_proj"]),
    ],
)
def test_what_is_left_out_is_found(old, new, missing):
    assert [row for row, _ in left_out(SVG.replace(old, new), {"rows": SHOWN})] == missing


def test_an_edge_of_its_own_making_is_found():
    part = archcli.draw("gpt2").anatomies[0].parts[0]
    rows = {row["id"]: row for row in document("show", "gpt2")["rows"]}
    assert list(joined_wrongly(part.nodes, rows)) == []
    q, k = (node for node in part.nodes if node.label in ("q", "k"))
    wrong = tuple(replace(node, reads=(q.id,)) if node is k else node for node in part.nodes)
    assert list(joined_wrongly(wrong, rows)) == [(k.id, q.id)]
