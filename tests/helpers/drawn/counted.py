"""Whether a drawing says what the commands count: addresses and values, printed numbers, kinds and layers."""

import re
from collections import defaultdict
from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"
ADDRESS = ("data-command", "data-path", "data-key", "data-value")
ROW_NAMES = re.compile(r"layers? \d[\d–, …]*|[\d,]+ features|\d[\d.]*%")
"""Numbers that need no address: which layers, the bar of the scale, and the share of a number beside it."""


def misprinted(svg):
    """Numbers in texts that are no rounding of their element's value, or have no element with a value."""
    for text in parsed(svg).iter(f"{SVG}text"):
        loose = "".join(_loose(text, text.get("data-value") is not None))
        if not UNCOUNTED & set(text.get("class", "").split()):
            numbers = [match[0] for match in NUMBER.finditer(NAMES.sub(" ", loose))]
            yield from (("number without an address", f"{number!r} in {loose!r}") for number in numbers)
        for element in text.iter():
            value = element.get("data-value")
            if value is None:
                continue
            printed = "".join(element.itertext())
            numbers = [match[0] for match in NUMBER.finditer(printed)]
            if not any(is_rounding(number, float(value)) for number in numbers):
                yield "no rounding of its value", f"{printed!r} for {value}"


def _loose(element, addressed_above):
    """The text of an element that is within no address; an address is a space."""
    if not addressed_above:
        yield element.text or ""
    for child in element:
        own = child.get("data-value") is not None
        yield from ["·"] if own else _loose(child, addressed_above)
        if not addressed_above:
            yield child.tail or ""


def distinct_layers(show):
    """Paths of the distinct layers in the JSON of `show`."""
    return {match[1]: None for row in show["rows"] if (match := LAYER.match(row["path"]))}


def layers_of(show):
    """How many layers the stacks have, {path of the stack: number}."""
    indices = defaultdict(set)
    for row in show["rows"]:
        if match := LAYER.match(row["path"]):
            indices[match[1].rpartition(".")[0]] |= set(row.get("layers") or ())
    return {stack: len(layers) for stack, layers in indices.items()}


def misplaced(svg, shows):
    """Kinds that are missing, twice or of no layer, and cells that are not as many as the layers."""
    elements = [*parsed(svg).iter()]
    kinds = sorted(element.get("data-kind") for element in elements if element.get("data-kind"))
    expected = sorted(path for show in shows for path in distinct_layers(show))
    for path in sorted({*kinds, *expected}):
        if kinds.count(path) != expected.count(path):
            yield "kinds", f"{path}: {kinds.count(path)} blocks for {expected.count(path)} distinct layers"
    cells = [element for element in elements if element.get("data-layer")]
    whole = sum(int(cell.get("data-value", 1)) for cell in cells)
    layers = sum(sum(layers_of(show).values()) for show in shows)
    if whole != layers:
        yield "cells", f"{len(cells)} cells for {whole} of {layers} layers"


def out_of_scale(svg):
    """Bars whose width is not their value by one scale: that of features, or that of a bar at the foot."""
    groups = defaultdict(list)
    for _, element in addressed(svg):
        if element.tag == f"{SVG}rect" and element.get("data-layer") is None:
            features = re.match(r"(in|out)puts\.|weights\.", element.get("data-key") or "")
            place = () if features else (element.get("data-command"), element.get("y"), element.get("height"))
            groups[place].append((float(element.get("width", 0)), float(element.get("data-value")), element))
    for place, bars in groups.items():
        widest = max(bars, key=lambda bar: bar[1])
        scale = widest[0] / widest[1] if widest[1] else 0.0
        for width, value, element in bars:
            if abs(width - value * scale) > 0.5:
                told = " ".join(element.get(name) or "-" for name in ADDRESS)
                yield (
                    "out of scale",
                    f"{told}: {width:.2f} wide, {value * scale:.2f} by {place or 'the scale'}",
                )
