"""The table of modules by others: what benchmarks/foreign.py found is what docs/own-module.md says."""

import csv
from pathlib import Path

TABLE = Path(__file__).parents[1] / "benchmarks" / "foreign_modules.csv"
ROWS = list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()))
MORE = list(csv.DictReader((TABLE.parent / "foreign_more.csv").read_text(encoding="utf-8").splitlines()))
PAIRS = {
    "flops": "real_flops",
    "train_flops": "real_train_flops",
    "forward_peak": "real_forward_peak",
    "train_peak": "real_train_peak",
}


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


def test_a_hundred_more_equal_a_real_pass_wherever_both_ran():
    assert len(MORE) >= 90
    assert [row["module"] for row in MORE if row["params"] != "equal"] == []
    for ours, real in PAIRS.items():
        compared = [row for row in MORE if row[ours] and row[real]]
        assert len(compared) >= 85, ours
        assert [row["module"] for row in compared if row[ours] != row[real]] == [], ours
    assert [row["module"] for row in MORE if row["hand"] and row["hand"] != row["flops"]] == []


def test_what_was_not_counted_says_why_in_a_line():
    silent = [row["module"] for row in MORE for ours, real in PAIRS.items() if row[real] and not row[ours]]
    assert set(silent) == {
        row["module"] for row in MORE if "no formula" in row["note"] or "TorchScript" in row["note"]
    }
    assert not any("\n" in row["note"] for row in MORE)
    # what runs no product of matrices: transforms, sums of rows, a triangular solve
    zeros = {row["module"] for row in MORE if row["flops"] == "0"}
    assert zeros == {"convolution by fft", "EmbeddingBag", "linalg.solve_triangular"}
