"""The borders of the core and its wings, and what wings offer; each wing can be left out.

The core's tests in a copy without a wing: `test_without_wings.py`.
"""

import ast
import re

import pytest

import parts
from archcli import plugins
from archcli.commands.line.names import GROUPS
from own_source import nodes, parsed, sources

OFFERED = {
    f"{wing}.{name}": place
    for wing, stated in parts.WINGS.items()
    for name, place in stated.get("archcli.parts", {}).items()
}


def test_the_core_imports_no_wing_and_wings_those_that_they_state():
    offences = parts.outside(parsed("archcli"))
    assert not offences, "\n" + "\n".join(offences)


def test_a_wing_states_no_other_than_it_imports():
    crossing = parts.crossings(parsed("archcli"))
    read = {wing: sorted({one.wing for one in crossing if one.part == wing}) for wing in parts.WINGS}
    assert read == {wing: sorted(stated["reads"]) for wing, stated in parts.WINGS.items()}


def test_an_import_over_a_border_is_seen():
    forged = {
        "archcli.graph.a": "def f():\n    from archcli.wings.media.b import C",
        "archcli.wings.media.b": "from archcli.wings.serving.e import F",
        "archcli.graph.c": "from archcli.modules import Model, Tower",
        "archcli.graph.d": "if TYPE_CHECKING:\n    from archcli.modules import Tower",
        "archcli.wings.serving.e": "from archcli.wings.media.b import C\nfrom archcli.graph.a import D",
    }
    offences = parts.outside({name: ast.parse(source) for name, source in forged.items()})
    assert offences == [
        "archcli.graph.a:2: archcli.wings.media.b is of media, which core does not read",
        "archcli.wings.media.b:1: archcli.wings.serving.e is of serving, which media does not read",
        "archcli.graph.c:1: Tower is of media, which core does not read",
    ]


def test_no_wing_is_read_in_a_circle():
    assert plugins.all_present()  # `_is_whole` would not end
    assert {*plugins.NAMES} == {*parts.WINGS}


@pytest.mark.parametrize("wing", sorted(parts.WINGS))
def test_what_a_wing_offers_is_there(wing):
    stated = parts.WINGS[wing]
    places = [
        place
        for group, offered in stated.items()
        if group.startswith("archcli.")
        for place in offered.values()
    ]
    assert places
    for place in places:
        assert place.startswith(f"archcli.wings.{wing}.")
        assert plugins.imported(place) is not None


def test_the_core_asks_for_what_is_offered_and_for_all_of_it():
    """A part of a wing is asked for by a text alone, which no import and no type checker would see."""
    asked = set()
    for name, tree in parsed("archcli").items():
        if parts.part_of(name) == parts.CORE:
            for call in nodes(tree):
                if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant):
                    if ast.unparse(call.func) in {"part", "optional"}:
                        asked.add(call.args[0].value)
                    if ast.unparse(call.func) == "_report" and name == "archcli.api.asking.modules":
                        asked.add(f"running.{call.args[0].value}")
    assert asked == {*OFFERED}


def test_a_part_of_a_wing_that_is_not_here_is_an_error(monkeypatch):
    monkeypatch.setattr(plugins, "present", lambda: ("media",))
    assert plugins.optional("serving.is_device", "none") == "none"
    with pytest.raises(plugins.ArchError, match="the wing 'serving' of archcli, which is not here"):
        plugins.part("serving.is_device")


def test_a_wing_whose_reading_is_not_here_is_not_here(monkeypatch):
    real = plugins.read
    monkeypatch.setattr(plugins, "read", lambda file: {} if file.startswith("media/") else real(file))
    assert plugins.present.__wrapped__() == ()
    monkeypatch.setattr(plugins, "read", lambda file: {} if file.startswith("shapes/") else real(file))
    assert plugins.present.__wrapped__() == ("serving", "media", "running")


def test_every_subcommand_is_the_cores_or_a_wings():
    names = [name for stated in parts.WINGS.values() for name in stated.get("archcli.commands", {})]
    files = (re.fullmatch(r"archcli\.commands\.([a-z]+)", name) for name in sources("archcli"))
    names += [file[1] for file in files if file and file[1] != "line"]
    names += ["rule"]  # beside rules
    assert sorted(names) == sorted(name for group in GROUPS.values() for name in group)
