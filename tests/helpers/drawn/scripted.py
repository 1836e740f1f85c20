"""A drawing with its script, run in a JavaScript engine for other figures."""

import json
from copy import deepcopy
from pathlib import Path
from xml.etree import ElementTree as ET

import quickjs

import archcli
from archcli.api.asking.subject import given
from archcli.wings.drawing.anatomy.anatomy import anatomy
from archcli.wings.drawing.picture.architecture.page.sheet import redrawn
from archcli.wings.drawing.picture.architecture.shapes import SvgShape

SCRIPTS = Path(archcli.__file__).parent / "wings/drawing/report"


class Drawing:
    """A drawing whose script runs in a JavaScript engine, its changes noted instead of made."""

    def __init__(self, name):
        self.drawn = redrawn(anatomy(given(name).model))
        self.root = ET.fromstring(self.drawn.svg)  # noqa: S314 it is our own
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

    def change(self, figures):
        """Draw anew for other figures, each found by its address."""
        known = {(figure.command, figure.path, figure.key): figure.value for figure in figures}
        values = [
            known.get((figure.command, figure.path, figure.key), figure.value)
            for figure in self.drawn.figures
        ]
        for number, name, value in self.changes(values):
            if name == "many":
                _cloned(self.numbered[number], value)
            else:
                _set(self.numbered[number], name, value)

    def shapes(self):
        """All elements of the drawing as shapes."""
        return map(_shape, self.root)


def _cloned(group, copies):
    first = deepcopy(group[0])
    group[:] = []
    for changes in copies:
        copy = deepcopy(first)
        inner = [element for element in copy.iter() if not element.tag.endswith("title")]
        for place, name, value in changes:
            _set(inner[place], name, value)
        group.append(copy)


def _set(element, name, value):
    title = next((child for child in element if child.tag.endswith("title")), None)
    if name == "title":
        title.text = value
    elif name == "text" and title is not None:
        title.tail = value
    elif name == "text":
        element.text = value
    else:
        element.set(name, value)


def _shape(element):
    """An element as a shape, its numbers as numbers."""
    attributes = {
        {"class": "class_"}.get(name, name.replace("-", "_")): _number(value)
        for name, value in element.attrib.items()
    }
    titles = [child for child in element if child.tag.endswith("title")]
    content = (element.text or "") + "".join(child.tail or "" for child in titles)
    inside = tuple(_shape(child) for child in element if child not in titles)
    title = titles[0].text or "" if titles else ""
    return SvgShape(element.tag.rpartition("}")[2], attributes, inside, content, title)


def _number(value):
    try:
        return float(value)
    except ValueError:
        return value
