"""A drawing's script draws, for the figures of this model, what is drawn; for others, what they say."""

import re
from dataclasses import replace

import pytest

from archcli.load.source import load
from archcli.wings.drawing.anatomy.anatomy import anatomy
from archcli.wings.drawing.picture.architecture.page.sheet import redrawn
from drawn.overlaps import overlaps
from drawn.scripted import Drawing

NUMBERS = re.compile(r"-?\d+(?:\.\d+)?")
MODELS = [
    "deepseek-v3",
    "falcon-h1-0.5b",
    "gemma-3-1b",
    "mamba-130m",
    "palm-540b",
    "qwen3-next-80b-a3b",
    "whisper-small",
]


def drawn_now(element, name):
    """An attribute of an element, its text or tooltip, as it is drawn."""
    children = [child for child in element if child.tag.endswith("title")]
    if name == "title":
        return children[0].text
    if name == "text":
        return children[0].tail if children else element.text
    return element.get(name)


def alike(theirs, ours):
    """Whether two texts are equal but for a tenth in numbers with a fraction."""
    if NUMBERS.sub("#", theirs) != NUMBERS.sub("#", ours):
        return False
    pairs = zip(NUMBERS.findall(theirs), NUMBERS.findall(ours), strict=True)
    return all(abs(float(a) - float(b)) < 0.11 for a, b in pairs)


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("name", MODELS)
def test_the_script_draws_what_is_drawn(name):
    drawing = Drawing(name)
    wrong = []
    for number, attribute, value in drawing.changes(drawing.values):
        element = drawing.numbered[number]
        if attribute == "many":
            wrong += [(number, len(value), len(element))] if len(value) != len(element) else []
            for copy, changed in zip(element, value, strict=False):
                inner = [each for each in copy.iter() if not each.tag.endswith("title")]
                wrong += [
                    (number, key, text, drawn_now(inner[place], key))
                    for place, key, text in changed
                    if not alike(text, drawn_now(inner[place], key))
                ]
        elif not alike(value, drawn_now(element, attribute)):
            wrong.append((number, attribute, value, drawn_now(element, attribute)))
    assert wrong == []


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("name", MODELS)
def test_other_figures_are_drawn_to_one_scale(name):
    drawing = Drawing(name)
    # widths of tensors thrice as large, and twice as much of what is counted of them
    values = [
        figure.value * (3 if figure.key.startswith("outputs") else 2) for figure in drawing.drawn.figures
    ]
    changes = {(number, name): value for number, name, value in drawing.changes(values) if name != "many"}
    bars = [
        (float(changes[number, "width"]), int(changes[number, "data-value"]))
        for number, element in drawing.numbered.items()
        # a bar, not the frame around one, which tells its bytes
        if element.get("data-command") == "show"
        and "held" not in element.get("class", "")
        and {(number, "width"), (number, "data-value")} <= changes.keys()
    ]
    assert len(bars) >= 4
    # the widest bar tells the scale most exactly
    width, features = max(bars)
    assert [bar for bar in bars if abs(bar[0] - bar[1] * width / features) > 0.2] == []
    assert {value for _, value in bars} <= set(values)


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("llama-3.1-8b", "d_ff=28672"),
        ("llama-3.1-8b", "n_heads=64"),
        ("llama-3.1-8b", "n_kv_heads=32"),
        ("llama-3.1-8b", "d_model=1024"),
        ("deepseek-v3", "kv_lora_rank=4096"),
        ("deepseek-v3", "n_heads=32"),
        ("deepseek-v3", "n_experts=64"),
        ("deepseek-v3", "d_model=2048"),
        ("qwen3-next-80b-a3b", "d_model=8192"),
        ("qwen3-next-80b-a3b", "d_model=512"),
    ],
)
def test_nothing_overlaps_where_other_figures_are_drawn(name, changed):
    drawing = Drawing(name)
    before = {(box.tag, *map(str, box.attributes.values())) for box in drawing.shapes()}
    assert list(overlaps(drawing.shapes(), 1000, 9999)) == []
    drawing.change(redrawn(anatomy(load(name, [changed]).model)).figures)
    assert list(overlaps(drawing.shapes(), 1000, 9999)) == []
    assert {(box.tag, *map(str, box.attributes.values())) for box in drawing.shapes()} != before


def test_a_name_with_the_signs_of_a_mark_is_never_run():
    name = "\ue000alert(1)\ue001harmless\ue002"
    drawn = redrawn(replace(anatomy(load("gpt2").model), name=name))
    assert "alert" not in drawn.script
