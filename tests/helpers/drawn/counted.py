"""Whether a drawing says what the commands count: addresses and values, printed numbers, kinds and layers."""

import re
from collections import defaultdict
from itertools import groupby
from math import prod
from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"
ADDRESS = ("data-command", "data-path", "data-key", "data-value")
ROW_NAMES = ("id", "path", "first", "component", "group", "name")
"""What names a row in the JSON of a command."""
LAYER = re.compile(r"((?:\w+\.)?layers\.\d+)\.")
NUMBER = re.compile(
    r"(?<![\w.,])(?<![A-Za-z]-)(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?\s?([KMGTPE]i?(?:B|FLOP)?|B|FLOP|k|%|[mµn]?s\b)?(?!\w|-[a-z])"
)
DECIMAL = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
BINARY = {f"{prefix}i": 1024**power for power, prefix in enumerate("KMGTPE", 1)}
SCALES = {**DECIMAL, **BINARY, "%": 0.01, "s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
"""What stands for what behind a number."""


def parsed(svg):
    """A drawing as a tree of elements."""
    return ET.fromstring(svg)  # noqa: S314 - a drawing of ours


def addressed(svg):
    """The elements of a drawing that say which number they draw, each with the model that it is about.

    Of several models: the nearest element around that names one; None where there is none.
    """
    yield from _addressed(parsed(svg), None)


def _addressed(element, model):
    model = element.get("data-model", model)
    if "data-value" in element.attrib:
        yield model, element
    for child in element:
        yield from _addressed(child, model)


def seen_by_layers(model):
    """The images without which some layers do not run: those are drawn as `show --image` has them."""
    return tuple(tower.usual for tower in getattr(model, "towers", ()) if tower.crosses)


class Addresses:
    """The numbers of a command's JSON by their addresses."""

    def __init__(self, document):
        self.totals = document["totals"]
        self.named, self.below = defaultdict(list), defaultdict(list)
        for row in document["rows"]:
            for name in {row[title] for title in ROW_NAMES if isinstance(row.get(title), str)}:
                self.named[name].append(row)
            steps = row.get("path", "").split(".")
            for end in range(1, len(steps)):
                self.below[".".join(steps[:end])].append(row)

    def value(self, path, key):
        """The number at an address; KeyError and its like where there is none.

        `path` is that of a row, or of a module, for the rows below it, or empty for totals; several are
        joined by +, as keys that are added up are. Keys joined by * are multiplied.
        """
        rows = [row for name in path.split("+") for row in self._rows(name)]
        if not rows:
            raise KeyError(path)
        sums = [[_walk(row, factor) for factor in term.split("*")] for row in rows for term in key.split("+")]
        return sum(map(prod, sums))

    def _rows(self, name):
        if not name:
            return [self.totals]
        return self.named.get(name) or self.below.get(name) or [self.totals[name]]


def _walk(value, key):
    for step in key.split("."):
        value = value[int(step)] if isinstance(value, list) else value[step]
    if not isinstance(value, int | float):
        raise KeyError(key)
    return value


def miscounted(svg, documents):
    """Elements whose value is not what a command says; `documents(command, model)` gives its JSON."""
    known = {}
    for model, element in addressed(svg):
        if "data-layer" in element.attrib:  # a run of layers, which are counted elsewhere
            continue
        command, path, key, value = (element.get(name) for name in ADDRESS)
        told = f"{command} {path} {key} {value}"
        if command is None or key is None or path is None:
            yield "address incomplete", told
            continue
        try:
            if (command, model) not in known:
                known[command, model] = Addresses(documents(command, model))
            counted = known[command, model].value(path, key)
        except (KeyError, IndexError, ValueError, TypeError):
            yield "no such address", told
            continue
        if float(value) != float(counted):
            yield "not what is counted", f"{told}, counted {counted}"


def is_rounding(text, value):
    """Whether a printed number, with its prefix, is a value rounded to the digits that are printed."""
    match = NUMBER.fullmatch(text.strip())
    if match is None:
        return False
    whole, part, unit = match[1].replace(",", ""), match[2] or "", match[3] or ""
    # B is billions or bytes, GB and GiB are bytes
    scales = {SCALES.get(unit.removesuffix("FLOP"), 1), SCALES.get(unit.removesuffix("B"), 1)}
    half = 0.5000001 * 10.0 ** -max(len(part) - 1, 0)
    return any(abs(value / scale - float(whole + part)) <= half for scale in scales)


UNCOUNTED = {"size-title", "index", "compared", "stated"}
"""Classes of texts whose numbers name: the model's name, indices of layers, settings of the model."""
NAMES = re.compile(
    r"\b[A-Za-z][\w.]*(?:-[\w.]+)+|[Ll]ayers? \d[\d–, …]*"
    r"|[\d,]+ (?:features|kinds)|\b(?:at|window|up to) [\d,]+|\d[\d.]*%"
    r"|of [\d,]+(?= tokens| frames| samples)|\b(?:image|sound|video) of [\d,]+(?: × [\d,]+)*|\d+ s of sound"
    r"|\blast: [\d,]+|\d+ taps|[\d.]+ [KMGT]iB as published.*"
)
"""Numbers that need no address: layers, the bar of the scale, the share of a number beside it, what is asked
(tokens, the size of an image), and what a test of its own compares (widths that join, bytes as published)."""


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
        own = child.get("data-value") is not None or child.get("class") == "stated"
        yield from ["·"] if own else _loose(child, addressed_above)
        if not addressed_above:
            yield child.tail or ""


def distinct_layers(show):
    """Paths of the distinct layers in the JSON of `show`."""
    return {match[1]: None for row in show["rows"] if (match := LAYER.match(row["path"]))}


MOST_CELLS = 110
"""A stack of more layers has a cell for each run of like layers."""


def stacks_of(show):
    """The kinds of the layers of each stack, from the first to the last."""
    stacks = defaultdict(dict)
    for row in show["rows"]:
        if match := LAYER.match(row["path"]):
            stacks[match[1].rpartition(".")[0]] |= dict.fromkeys(row.get("layers") or (), match[1])
    return [[kind for _, kind in sorted(layers.items())] for layers in stacks.values()]


def misplaced(svg, shows):
    """Kinds that are missing, twice or of no layer, and cells that are not as many as the layers."""
    elements = [*parsed(svg).iter()]
    kinds = sorted(element.get("data-kind") for element in elements if element.get("data-kind"))
    expected = sorted(path for show in shows for path in distinct_layers(show))
    for path in sorted({*kinds, *expected}):
        if kinds.count(path) != expected.count(path):
            yield "kinds", f"{path}: {kinds.count(path)} blocks for {expected.count(path)} distinct layers"
    drawn = [
        (int(element.get("data-layer")), element.get("data-value"))
        for element in elements
        if element.get("data-layer")
    ]
    stacks = [layers for show in shows for layers in stacks_of(show)]
    cells = [cell for layers in stacks for cell in cells_of(layers)]
    if len(cells) > MOST_CELLS * len(stacks):  # hardly two layers are alike: those of one look are a run
        whole, layers = sum(int(value or 1) for _, value in drawn), sum(map(len, stacks))
        if whole != layers or len(drawn) > MOST_CELLS * len(stacks):
            yield "cells", f"{len(drawn)} cells for {whole} of {layers} layers"
    elif sorted(drawn, key=str) != sorted(cells, key=str):
        yield "cells", f"{sorted(drawn)[:4]} … are {len(drawn)} cells for {len(cells)}: {sorted(cells)[:4]} …"


def cells_of(layers):
    """The first layer of each cell and, where it is a run, how many it stands for."""
    if len(layers) <= MOST_CELLS:
        return [(i, None) for i in range(len(layers))]
    runs = [[i for i, _ in run] for _, run in groupby(enumerate(layers), key=lambda layer: layer[1])]
    return [(run[0], str(len(run))) for run in runs]


def out_of_scale(svg):
    """Bars whose width is not their value by one scale: that of features, or that of a bar at the foot."""
    groups = defaultdict(list)
    for _, element in addressed(svg):
        frames = {"held", "none"} & set(element.get("class", "").split())
        if element.tag == f"{SVG}rect" and element.get("data-layer") is None and not frames:
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
