"""The presets' index is what is counted of the presets; where a value stands in it is worked out by hand."""

import json
from pathlib import Path

import pytest

from archcli.load.presets import folder, presets, presets_index
from archcli.load.source import load
from archcli.rules import all_rules
from archcli.rules.evidence import COLUMNS, entry, spread, standing

INDEX = [
    {"name": "a", "released": "2019-02", "ratio": 2.0},
    {"name": "b", "released": 2021, "ratio": 4.0},
    {"name": "c", "released": None, "ratio": 4.0},
    {"name": "d", "released": "2024", "ratio": 16.0},
    {"name": "e", "released": "2024", "ratio": None},
]


@pytest.mark.long
def test_the_index_is_current(renew):
    path = folder() / "index.json"
    made = [entry(name, load(name).model) for name in presets()]
    if renew:
        path.write_text("[\n" + ",\n".join(json.dumps(each) for each in made) + "\n]\n")
        presets_index.cache_clear()
    made = json.loads(json.dumps(made))
    assert json.loads(path.read_text()) == made
    assert presets_index() == made


def test_the_columns_are_those_that_rules_use():
    assert set(COLUMNS) == {rule.evidence for rule in all_rules().values()} - {""}


@pytest.mark.parametrize(
    ("value", "percentile", "nearest"),
    [
        (
            4.0,
            100 * (1 + 0.5 + 0.5) / 4,
            ["b", "c", "a"],
        ),  # one below, two equal; 2 is half of it, 16 four times
        (1.0, 0.0, ["a", "b", "c"]),
        (100.0, 100.0, ["d", "b", "c"]),
        (8.0, 100 * 3 / 4, ["d", "b", "c"]),  # 16 and 4 are as far: the later one first
    ],
)
def test_a_value_stands_among_the_others(value, percentile, nearest):
    found = standing(INDEX, "ratio", value)
    assert found.percentile == percentile
    assert found.models == 4
    assert [each.name for each in found.nearest] == nearest


def test_a_model_is_not_compared_with_itself():
    assert standing(INDEX, "ratio", 4.0, excluded="b").models == 3
    assert standing(INDEX, "none", 4.0) is None
    assert standing([], "ratio", 4.0) is None


def test_evidence_in_words():
    assert (
        standing(INDEX[:2], "ratio", 4.0).text()
        == "percentile 75 of 2 models; nearest b (2021) 4, a (2019) 2"
    )
    assert spread(INDEX, "ratio") == "ratio of 4 models: least a (2019) 2, median 4, most d (2024) 16"
    assert spread(INDEX, "none") == ""


def test_the_index_ships_with_the_presets():
    pyproject = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert 'presets = "archcli/presets"' in pyproject
    assert (folder() / "index.json").is_file()
