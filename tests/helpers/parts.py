"""The parts of archcli: a core, and wings that add to it; and the imports that cross a border.

A module below `archcli.wings.NAME` is of the wing NAME, and any other of the core. Like `house.py`: parsed
source alone is read.
"""

import json
from typing import NamedTuple

import house
from own_source import ROOT

CORE = "core"
WINGS = {
    path.parent.name: json.loads(path.read_text()) for path in (ROOT / "archcli/wings").glob("*/wing.json")
}
"""What wing.json of each wing says."""
NAMES = (CORE, *sorted(WINGS))


def outside(parsed):
    """The imports of a part from a wing that it does not read by its wing.json, as lines."""
    return [
        f"{one.source}:{one.line}: {one.part} does not read {one.target}"
        for one in crossings(parsed)
        if one.wing not in WINGS.get(one.part, {}).get("reads", ())
    ]


def part_of(module):
    """The part that a module belongs to, by its dotted name."""
    return module.split(".")[2] if module.startswith(f"{house.WINGS}.") else CORE


class Crossing(NamedTuple):
    """An import of one part that names a module of a wing."""

    source: str
    line: int
    target: str
    part: str
    wing: str


def imports_of_the_core(parsed):
    """The imports of archcli's modules that stand in the core's."""
    return [
        one
        for one in house.imports(parsed)
        if part_of(one.source) == CORE and one.target.split(".")[0] == "archcli"
    ]


def crossings(parsed):
    """The imports of a part that name a module of another wing."""
    named = (
        Crossing(one.source, one.line, one.target, part_of(one.source), part_of(one.target))
        for one in house.imports(parsed)
    )
    return [one for one in named if one.wing not in (CORE, one.part)]


def outwards(parsed):
    """The imports of the core that cross into a wing."""
    return [one for one in crossings(parsed) if one.part == CORE]
