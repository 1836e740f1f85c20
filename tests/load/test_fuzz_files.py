"""Damaged files and settings: every one is answered or refused in words, in 2 s and 1 GB.

The cases of a kind are told by their seeds: `python tests/helpers/fuzz/worker.py KIND SEED 1` runs one again.
"""

import json

import pytest

from fuzz.cases import KINDS, SAVED
from fuzz.driver import SEED, WORKER, run
from fuzz.worker import run as answer

CASES, QUICK = 60, 4


@pytest.mark.long
def test_a_few_damaged_files_of_each_kind_are_answered():
    assert [fault for kind in KINDS for fault in run(kind, 0, QUICK)[0]] == []


@pytest.mark.long
@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_answered(kind):
    print(f"{kind}: seeds {SEED} to {SEED + CASES - 1}")  # noqa: T201 - shown with a failure, and with -s
    assert run(kind, SEED, CASES)[0] == []


HOSTILE = {
    "slow": ("while True: pass", "took more than 2 s"),
    "greedy": ("bytearray(2 << 30)", "MemoryError"),
    "wrong": ("1 / 0", "ZeroDivisionError"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", HOSTILE)
def test_the_watch_sees_what_it_is_for(name, tmp_path, monkeypatch):
    """A command that hangs, takes 2 GB or fails is told with its kind and seed."""
    code, told = HOSTILE[name]
    script = tmp_path / "worker.py"
    lines = WORKER.read_text().replace("from archcli.cli import main", f"def main():\n    {code}\n")
    script.write_text(lines)
    monkeypatch.setattr("fuzz.driver.WORKER", script)
    [fault], _ = run("set", 5, 1)
    assert "set 5" in fault
    assert told in fault


def test_a_saved_profile_with_a_share_beyond_the_whole_is_drawn(tmp_path):
    """Its mark on the roofline would be wider than the drawing."""
    document = json.loads(SAVED.read_text())
    for row in document["rows"]:
        row["time_share"] = 2.0**53
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(document))
    assert answer(["plot", str(path), "-o", str(tmp_path / "p.svg")])[0] == 0
