"""A drawing's script draws, for the figures of this model, what is drawn; for others, what they say."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import quickjs

import archcli
from archcli.api.asking.subject import given
from archcli.measure.survey.anatomy.anatomy import anatomy
from archcli.render.picture.architecture.page.sheet import redrawn

SCRIPTS = Path(archcli.__file__).parent / "render" / "report"
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


class Drawing:
    """A drawing whose script runs in a JavaScript engine, its changes noted instead of made."""

    def __init__(self, name):
        self.drawn = redrawn(anatomy(given(name).model))
        self.root = ET.fromstring(self.drawn.svg)
        self.numbered = {
            int(element.get("data-n")): element for element in self.root.iter() if element.get("data-n")
        }
        self.engine = quickjs.Context()
        for file in ("bigint.js", "text.js", "redraw.js"):
            self.engine.eval((SCRIPTS / file).read_text())
        # in place of elements: what would be set, by the number of the element
        self.engine.eval("""globalThis.noted = [];
            globalThis.record = (script, figures) => { noted.length = 0;
              const set = (e, name, value) => noted.push([e, name, value]);
              const many = (e, count, change) => noted.push(
                [e, 'many', Array.from({length: count}, (_, i) => change(i))]);
              const svg = {querySelectorAll: () => Array.from({length: 9999}, (_, i) => i)};
              return JSON.stringify((eval(script)(figures, svg), noted)); }""")
        self.engine.eval(f"globalThis.script = {json.dumps(self.drawn.script)}")

    def changes(self, values):
        """(element, name, value) that the script sets for these figures."""
        written = ",".join(f"{value}n" if type(value) is int else repr(float(value)) for value in values)
        return json.loads(self.engine.eval(f"record(script, [{written}])"))

    @property
    def values(self):
        return [figure.value for figure in self.drawn.figures]


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
