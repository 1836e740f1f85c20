"""benchmarks/compare_checkouts.py.

Where two reports differ, and that a checkout does not differ from itself.
"""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "compare_checkouts.py"
differences = runpy.run_path(str(SCRIPT))["differences"]

DIFFERENT = {
    "a figure": ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, ["a[1].b: 2 -> 3"]),
    "a type": ({"a": 1}, {"a": 1.0}, ["a: 1 -> 1.0"]),
    "a key": ({"a": 1}, {"a": 1, "b": 2}, ['b: "absent" -> 2']),
    "a length": ({"a": [1]}, {"a": [1, 2]}, ["a: [1] -> [1, 2]"]),
    "nothing": ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}, []),
}


@pytest.mark.parametrize(("old", "new", "expected"), DIFFERENT.values(), ids=DIFFERENT)
def test_a_difference_is_told_with_its_place(old, new, expected):
    assert list(differences(old, new)) == expected


@pytest.mark.long
def test_a_checkout_does_not_differ_from_itself():
    command = [sys.executable, str(SCRIPT), str(ROOT), str(ROOT), "--only", "gpt2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith(" commands, 0 differences\n")
    assert int(done.stdout.split()[0]) > 20
