"""The parts of archcli: a core, and wings that add to it; and the imports that cross a border.

A module below `archcli.wings.NAME` is of the wing NAME, and any other of the core. Like `house.py`: parsed
source alone is read.
"""

import ast
import json
from typing import NamedTuple

import house
import listings
from own_source import ROOT

CORE = "core"
WINGS = {
    path.parent.name: json.loads(path.read_text()) for path in (ROOT / "archcli/wings").glob("*/wing.json")
}
"""What wing.json of each wing says."""
NAMES = (CORE, *sorted(WINGS))


def by_name(parsed):
    """Names of a wing that another part imports of a package that the wing adds them to: archcli.ops.

    None for types alone. As (part, line of code, wing).
    """
    homes = {
        (package, name): part_of(home)
        for home, package in listings.HOMES.items()
        for names in listings.names(home).values()
        for name in names
    }
    for module, tree in parsed.items():
        for node, _, typing in house._importing(tree):
            if isinstance(node, ast.ImportFrom) and node.module in listings.PACKAGES and not typing:
                for alias in node.names:
                    wing = homes.get((node.module, alias.name), CORE)
                    if wing not in (CORE, part_of(module)):
                        yield part_of(module), f"{module}:{node.lineno}: {alias.name}", wing


def outside(parsed):
    """The imports of a part from a wing that it does not read by its wing.json, as lines."""
    named = [(one.part, f"{one.source}:{one.line}: {one.target}", one.wing) for one in crossings(parsed)]
    return [
        f"{what} is of {wing}, which {part} does not read"
        for part, what, wing in [*named, *by_name(parsed)]
        if wing not in WINGS.get(part, {}).get("reads", ())
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
