"""3,000 damaged files and settings: every one is answered or refused in words, in 2 s and 1 GB.

The cases of a kind are told by their seeds: `python tests/helpers/fuzz_worker.py KIND SEED 1` runs one again.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz_cases import KINDS, SAVED
from fuzz_worker import run as answer

TESTS = Path(__file__).parents[1]
WORKER = TESTS / "helpers" / "fuzz_worker.py"
CASES, QUICK = 250, 4
ENDS = {-signal.SIGPROF: "took more than 2 s", -signal.SIGSEGV: "crashed", -signal.SIGKILL: "hung"}


def run(kind, first, count):
    """What is wrong with these cases, each with its kind and seed."""
    path = os.pathsep.join(map(str, [TESTS.parent, TESTS, TESTS / "helpers"]))
    worker = subprocess.Popen(
        [sys.executable, str(WORKER), kind, str(first), str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        out, err = worker.communicate(timeout=60 + 10 * count)
    except subprocess.TimeoutExpired:
        worker.kill()
        out, err = worker.communicate()
    lines = out.splitlines()
    faults = [line for line in lines if line.startswith("fault")]
    if lines[-1:] != ["done"]:
        ended = ENDS.get(worker.returncode, f"ended the process with {worker.returncode}")
        faults.append(f"{lines[-1] if lines else kind} {ended}\n{err[-2000:]}")
    return faults


def test_a_few_damaged_files_of_each_kind_are_answered():
    assert [fault for kind in KINDS for fault in run(kind, 0, QUICK)] == []


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_answered(kind):
    seed = int(os.environ.get("FUZZ_SEED", "0"))
    print(f"{kind}: seeds {seed} to {seed + CASES - 1}")  # noqa: T201 - shown with a failure, and with -s
    assert run(kind, seed, CASES) == []


HOSTILE = {
    "slow": ("while True: pass", "took more than 2 s"),
    "greedy": ("bytearray(2 << 30)", "MemoryError"),
    "wrong": ("1 / 0", "ZeroDivisionError"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_watch_sees_what_it_is_for(name, tmp_path, monkeypatch):
    """A command that hangs, takes 2 GB or fails is told with its kind and seed."""
    code, told = HOSTILE[name]
    script = tmp_path / "worker.py"
    lines = WORKER.read_text().replace("from archcli.cli import main", f"def main():\n    {code}\n")
    script.write_text(lines)
    monkeypatch.setattr(f"{__name__}.WORKER", script)
    [fault] = run("set", 5, 1)
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
