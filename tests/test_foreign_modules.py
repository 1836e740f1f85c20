"""The table of modules by others: what benchmarks/foreign.py found is what docs/own-module.md says."""

import csv
from pathlib import Path

TABLE = Path(__file__).parents[1] / "benchmarks" / "foreign_modules.csv"
ROWS = list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()))


def test_two_modules_of_each_package_were_run():
    packages = [row["package"] for row in ROWS]
    assert len(ROWS) >= 30
    assert all(packages.count(name) >= 2 for name in packages)


def test_parameters_are_equal():
    assert [row["module"] for row in ROWS if row["params"] != "equal"] == []


def test_flops_are_those_of_torch_wherever_its_list_is_complete():
    compared = [row for row in ROWS if row["torch"] and not row["missed"]]
    assert len(compared) >= 30
    assert [row["module"] for row in compared if row["flops"] != row["torch"]] == []
    assert all(int(row["flops"]) > 0 for row in ROWS)


def test_nine_of_ten_peaks_are_equal_to_the_byte():
    for phase in ("forward", "train"):
        differs = [row["module"] for row in ROWS if row[f"{phase}_peak"] != row[f"real_{phase}_peak"]]
        assert len(differs) <= len(ROWS) / 10, differs
