"""What makes a house hard to live in, counted.

Circles, crowded folders, names that mean two things, upper layers that ask for classes.
"""

import ast
import json

import pytest

import house
import house_counts
import parts
from own_source import parsed, sources
from table import every_row

MOST_TYPE_TESTS = 25
MOST_VAGUE_NAMES = 10
"""As many as there are, so that there is never one more."""
WIDEST = 110
OF_A_BLOCK = "def f(layer):\n    return layer.block.attention.window"
FORGED = [
    (
        house_counts.crowded,
        {"archcli": "", "archcli.load": "", **{f"archcli.load.f{i}": "" for i in range(15)}},
    ),
    (house_counts.repeated_classes, {"archcli.a": "class A: ...", "archcli.b": "class A: ..."}),
    (house_counts.long_first_lines, {"archcli.a": f"def f():\n    '''{'word ' * 21}'''"}),
    (
        house_counts.upward_for_types,
        {"archcli.measure.a": "if TYPE_CHECKING:\n    from archcli.wings.running.runtime.b import C"},
    ),
    (house_counts.looks_through, {"archcli.rules.a": OF_A_BLOCK}),
    (
        house.circles,
        {"archcli.a": "if TYPE_CHECKING:\n    import archcli.b", "archcli.b": "import archcli.a"},
    ),
]
RULES = [rule for rule, _ in FORGED]


def titles(rule):
    return getattr(rule, "__name__", None)


@every_row(("rule", "sources"), FORGED, ids=titles)
def test_a_count_sees_a_forged_offence(rule, sources):
    assert rule({name: ast.parse(source) for name, source in sources.items()})


@pytest.mark.parametrize("rule", RULES, ids=titles)
def test_nothing_is_counted(rule):
    offences = rule(parsed("archcli"))
    assert not offences, f"{len(offences)} offences\n" + "\n".join(offences)


def test_lines_fit_beside_a_diff():
    wide = [
        f"{name}:{i}: {len(line)} columns"
        for name, source in sources("archcli").items()
        for i, line in enumerate(source.splitlines(), 1)
        if len(line) > WIDEST
    ]
    assert not wide, "\n" + "\n".join(wide)


def test_a_vague_name_is_seen():
    source = "def _made(given, x):\n    other = x\n    x.asked = other.words"
    offences = house_counts.vague_names({"archcli.a": ast.parse(source)})
    assert {offence.split()[-1] for offence in offences} == {"_made", "given", "other", "asked"}


@pytest.mark.long
def test_names_say_what_a_value_is():
    offences = house_counts.vague_names(parsed("archcli"))
    assert len(offences) <= MOST_VAGUE_NAMES, "\n" + "\n".join(offences)


def test_a_type_test_is_seen():
    forged = {
        "archcli.ops.a": "class Op: ...",
        "archcli.rules.a": "isinstance(x, Op | int)\nisinstance(x, nn.Op)\nisinstance(x, str)",
        "archcli.wings.running.runtime.a": "getattr(x, name, None)\ngetattr(x, name)",
        "archcli.modules.a": "getattr(x, name, None)",
    }
    forged_house = {name: ast.parse(source) for name, source in forged.items()}
    assert list(house_counts.type_tests(forged_house)) == [
        ("archcli.rules.a", 1, "isinstance(x, Op | int)"),
        ("archcli.wings.running.runtime.a", 1, "getattr(x, name, None)"),
    ]


def test_few_upper_places_ask_for_a_class_and_say_why():
    type_tests = list(house_counts.type_tests(parsed("archcli")))
    listed = "\n" + "\n".join(f"{name}:{line}: {text}" for name, line, text in type_tests)
    assert len(type_tests) <= MOST_TYPE_TESTS, listed
    without = [
        f"{name}:{line}: {text}"
        for name, line, text in type_tests
        if text.startswith("isinstance")
        and not any("#" in near for near in sources("archcli")[name].splitlines()[max(0, line - 2) : line])
    ]
    assert not without, "no reason stands beside\n" + "\n".join(without)


PLACES = [
    ("archcli.cli", "core"),
    ("archcli.modules.attention.grouped", "core"),
    ("archcli.modules.models.model", "core"),
    ("archcli.wings.media.modules.models.tower", "media"),
    ("archcli.wings.serving.devices", "serving"),
    ("archcli.wings.serving.devices.ceilings", "serving"),
    ("archcli.wings.serving.pictures.fit", "serving"),
    ("archcli.render.picture.labels", "core"),
    ("archcli.fitted", "core"),
    # wherever a folder moves to, its part is in its path
    ("archcli.wings.media.projectors", "media"),
    ("archcli.wings.serving.modules.projectors", "serving"),
]


@every_row(("module", "part"), PLACES)
def test_a_module_has_its_part(module, part):
    assert parts.part_of(module) == part


def test_an_import_out_of_the_core_is_seen():
    forged = {
        "archcli.graph.a": "import json\nfrom archcli.wings.media.b import C\nfrom archcli.arith import D",
        "archcli.wings.media.b": "from archcli.wings.serving.e import F\nfrom archcli.graph.a import G",
    }
    house_of_two = {name: ast.parse(source) for name, source in forged.items()}
    crossing = parts.Crossing("archcli.graph.a", 2, "archcli.wings.media.b", "core", "media")
    assert parts.outwards(house_of_two) == [crossing]
    assert len(parts.imports_of_the_core(house_of_two)) == 2


def test_the_figures_are_printed_as_json(capsys):
    house_counts.main(["--json"])
    figures = json.loads(capsys.readouterr().out)
    texts = sources("archcli")
    assert figures["files"] == len(texts)
    assert figures["lines"] == sum(len(text.splitlines()) for text in texts.values())
    assert [*figures["by_part"]] == [*parts.NAMES]
    for name in ("files", "lines"):
        assert sum(part[name] for part in figures["by_part"].values()) == figures[name]
        assert all(part[name] for part in figures["by_part"].values())
    assert figures["outwards"] == len(figures["crossing"])
