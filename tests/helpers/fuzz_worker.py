"""Run cases of the fuzzer in this process, within 1 GB and 2 s of processor time each: KIND FIRST COUNT.

A line `case KIND SEED` stands before each, so that whoever started this knows which one ended it.
"""

import contextlib
import io
import json
import math
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path

from archcli.cli import main
from fuzz_cases import case

MOST_BYTES, MOST_S = 1 << 30, 2.0
CODES = {0, 1, 2}


def figures(value, path=""):
    """(path, number) of every number in a JSON tree."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from figures(inner, f"{path}.{key}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def run(arguments):
    """(exit code, standard output, standard error) of a command, run here."""
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["archcli", *arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
    return code, out.getvalue(), err.getvalue()


def faults(arguments):
    """What is wrong with the answer to a command."""
    try:
        code, out, err = run(arguments)
    except Exception:  # noqa: BLE001 - anything that is not an answer is what is looked for
        return [traceback.format_exc()]
    if code not in CODES:
        return [f"exit code {code}"]
    wrong = ["a traceback on standard error"] if "Traceback" in err else []
    wrong += ["refused without a word"] if code == 2 and not err.strip() else []
    if code < 2 and out and "--json" in arguments and arguments[0] in {"params", "flops", "kvcache"}:
        document = json.loads(out)
        numbers = [*figures(document["totals"]), *figures(document["rows"])]
        wrong += [f"{path} is {n}" for path, n in numbers if not math.isfinite(n) or n < 0]
    return wrong


def work(kind, first, count):
    for seed in range(first, first + count):
        print("case", kind, seed, flush=True)  # noqa: T201
        folder = Path(tempfile.mkdtemp(prefix="fuzz"))
        try:
            arguments = case(kind, seed, folder)
            signal.setitimer(signal.ITIMER_PROF, MOST_S)
            for fault in faults(arguments):
                print("fault", kind, seed, json.dumps([arguments, fault]), flush=True)  # noqa: T201
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            shutil.rmtree(folder)
    print("done", flush=True)  # noqa: T201


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
