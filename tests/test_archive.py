"""benchmarks/archive.py: where two reports differ, and that a checkout does not differ from itself."""

import runpy
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "archive.py"
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


def run(*args):
    command = [sys.executable, str(SCRIPT), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.mark.long
def test_a_checkout_does_not_differ_from_its_archive(tmp_path):
    archive = tmp_path / "gpt2.zip"
    assert run("write", ROOT, archive, "--only", " gpt2") == (0, "")
    code, out = run("compare", archive, ROOT, "--only", " gpt2", "--jobs", 1)
    assert code == 0, out
    assert out.endswith(" commands, 0 differences\n")
    with ZipFile(archive) as files:
        asked = {name.split()[0] for name in files.namelist()}
    counted = {"params", "flops", "kvcache", "memory", "predict", "show", "compare"}
    assert asked == {*counted, "check", "explain", "scale", "sweep", "SHA256SUMS"}


def test_what_differs_is_printed_and_counted(tmp_path, capsys):
    script = runpy.run_path(str(SCRIPT))
    old, new = ({"a": b'{"n": 1}', "old": b"{}"}, {"a": b'{"n": 2}'})
    for name, files in {"old": old, "new": new}.items():
        script["write"](tmp_path / name, files)
        assert script["read"](tmp_path / name, "") == files
    assert script["compare"](old, new) == 2
    assert capsys.readouterr().out.splitlines() == [
        "archcli a",
        "  n: 1 -> 2",
        "archcli old",
        "  asked of the old alone",
        "1 commands, 2 differences",
    ]
