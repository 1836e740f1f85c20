"""Run cases of the fuzzer in a process of their own, and say what is wrong with them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]
WORKER = TESTS / "helpers" / "fuzz" / "worker.py"
SEED = int(os.environ.get("FUZZ_SEED", "0"))
ENDS = {-signal.SIGSEGV: "crashed", -signal.SIGKILL: "hung"}


def run(kind, first, count):
    """(what is wrong with these cases, each with its kind and seed; the worker's summary)."""
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
        return faults, {}
    return faults, json.loads(lines[-2].removeprefix("summary "))
