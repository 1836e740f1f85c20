"""Run cases of the fuzzer in this process, each within bounds of memory and processor time: KIND FIRST COUNT.

A line `case KIND SEED` stands before each, so that whoever started this knows which one ended it. KIND is a
kind of damage (cases.py) or a command that is asked valid questions (valid.py).
"""

import contextlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path
from time import process_time
from unittest import mock

sys.path += map(str, Path(__file__).parents[1:3])  # helpers/ and tests/, where a person starts this file

from archcli.cli import main
from fuzz.cases import KINDS, FuzzCase, case
from fuzz.judge import figures_of, judged

DAMAGED, VALID = (1 << 30, 2.0), (4 << 30, 10.0)
"""Most bytes, and most seconds of a case."""
CODES = {0, 1, 2}


class TooLongError(BaseException):
    """A case took more than its seconds; nothing that catches Exception may hide it."""


def stop(*_):
    raise TooLongError


def run(arguments):
    """(exit code, standard output, standard error) of a command, run here."""
    out, err = io.StringIO(), io.StringIO()
    with (
        # put back afterwards: hints name the command of the process
        mock.patch.object(sys, "argv", ["archcli", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
    return code, out.getvalue(), err.getvalue()


def of_damaged(arguments, code, out, err):
    """What is wrong with the answer about a damaged file."""
    if code not in CODES:
        return [f"exit code {code}"]
    wrong = ["a traceback on standard error"] if "Traceback" in err else []
    wrong += ["refused without a word"] if code == 2 and not err.strip() else []
    if code < 2 and out and "--json" in arguments and arguments[0] in {"params", "flops", "kvcache"}:
        wrong += figures_of(json.loads(out))
    return wrong


def of_valid(arguments, code, out, err):
    """What is wrong with the answer to a valid question, printed or written into the file of -o."""
    if code < 2 and "-o" in arguments:
        out += Path(arguments[arguments.index("-o") + 1]).read_text()
    return judged(arguments, code, out, err)


def faults(arguments, most_s, judge):
    """(what is wrong with the answer, exit code, the first line of a refusal)."""
    try:
        signal.setitimer(signal.ITIMER_PROF, most_s, 1.0)  # again where a finalizer swallowed it
        try:
            code, out, err = run(arguments)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except TooLongError:
        return [f"took more than {most_s:g} s"], None, ""
    except Exception:  # noqa: BLE001 - anything that is not an answer is what is looked for
        return [traceback.format_exc()], None, ""
    refusal = next((line for line in err.splitlines() if "error: " in line), err) if code == 2 else ""
    return judge(arguments, code, out, err), code, refusal


def work(kind, first, count):
    """Run the cases of these seeds; a line for each fault, and at last how many were answered and refused."""
    drawn, (_, most_s), judge = drawn_by(kind)
    refusals, seconds = Counter(), {}
    for seed in range(first, first + count):
        print("case", kind, seed, flush=True)  # noqa: T201
        folder = Path(tempfile.mkdtemp(prefix="fuzz"))
        try:
            asked_case = drawn(kind, seed, folder)
            for name in ("COLUMNS", "NO_COLOR"):
                os.environ.pop(name, None)
            os.environ.update(asked_case.environment)
            start = process_time()
            wrong, code, refusal = faults(asked_case.arguments, most_s, judge)
            seconds[seed] = process_time() - start
            refusals.update([refusal] if code == 2 else [])
            for fault in wrong:
                print("fault", kind, seed, json.dumps([asked_case.arguments, fault]), flush=True)  # noqa: T201
        finally:
            shutil.rmtree(folder)
    slowest = max(seconds, key=seconds.__getitem__, default=None)
    summary = {"cases": count, "refused": refusals.total(), "most_often": refusals.most_common(5)}
    summary |= {"slowest_seed": slowest, "slowest_s": seconds.get(slowest), "all_s": sum(seconds.values())}
    print("summary", json.dumps(summary), flush=True)  # noqa: T201
    print("done", flush=True)  # noqa: T201


def drawn_by(kind):
    """How cases of a kind are drawn, their bounds, and who judges the answers."""
    if kind in KINDS:
        return lambda *drawn: FuzzCase(case(*drawn), {}), DAMAGED, of_damaged
    from fuzz.valid import valid_case  # brings hypothesis, which damaged files do without

    return valid_case, VALID, of_valid


if __name__ == "__main__":
    signal.signal(signal.SIGPROF, stop)
    warnings.simplefilter("error")  # a warning of numpy's is a figure that overflows
    most_bytes = drawn_by(sys.argv[1])[1][0]
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
