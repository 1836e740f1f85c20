"""The table of transformers' types by `--by-class`: its rows hold together, and the door answers them now.

`by_class.py` makes it; what torch counts of a class stands in it.
"""

import json
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from archcli.cli import main

TABLE = Path(__file__).with_name("by_class.jsonl")
ROWS = [json.loads(line) for line in TABLE.read_text("utf-8").splitlines()]
REASONS = ("no_build", "no_run", "no_witness", "no_formula")
QUICK = 300_000_000
"""Parameters of a class that counts for seconds."""
ASKED_AGAIN = [
    row
    for row in ROWS
    if "torch" in row and "run_on" not in row and "uncounted" not in row and row["params"] < QUICK
]


def test_a_type_has_one_row():
    types = [row["type"] for row in ROWS]
    assert types == sorted(set(types))


def test_every_type_of_transformers_has_a_row():
    assert {row["type"] for row in ROWS} == {*CONFIG_MAPPING_NAMES}


def test_flops_are_torchs_for_the_most_types():
    """Of those of the base mapping whose class builds, 300 at least were asked for."""
    equal = [row["type"] for row in ROWS if row["base"] and row.get("flops", 0) == row.get("torch")]
    assert len(equal) >= 480


def test_a_row_is_of_figures_or_has_a_reason():
    """FLOPs are those of torch's counter, and a type whose class says nothing has the reason."""
    unexplained = [
        row["type"]
        for row in ROWS
        if not any(row.get(reason) for reason in REASONS) and row["flops"] != row["torch"]
    ]
    assert unexplained == []


def test_parameters_are_those_of_the_class():
    figures = {row["type"]: (row["params"], row["class_params"]) for row in ROWS if "class_params" in row}
    assert figures
    assert {kind: pair for kind, pair in figures.items() if pair[0] != pair[1]} == {}


@pytest.mark.long
@pytest.mark.parametrize("row", ASKED_AGAIN, ids=lambda row: row["type"])
def test_the_door_answers_what_the_table_has(row, tmp_path, monkeypatch, capsys):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": row["type"]}), "utf-8")
    monkeypatch.setattr(sys, "argv", ["archcli", "summary", str(path), "--by-class", "--json"])
    with suppress(SystemExit):
        main()
    totals = json.loads(capsys.readouterr().out)["totals"]
    assert (totals["params"], totals["executed_flops"]) == (row["params"], row["torch"])
